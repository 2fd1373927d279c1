#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace keelson {

/// Nanoseconds of this process' std::chrono::steady_clock.
using TraceTime = std::int64_t;
TraceTime trace_now();  ///< the time now

/// An activity with a duration, on one rank.
struct TraceEvent {
  /// span: work of one host thread. exchange: a collective, from its start to the end of the wait for it.
  enum class Kind : std::uint8_t { span, exchange };
  const char* name = "";      ///< static, or of TraceRecorder::keep()
  const char* category = "";  ///< static: "step", "call", "input" ...
  /// span: begin, end. exchange: start() called; start() returned; test() returned true, or wait() called if this was
  /// earlier; wait() called; wait() returned.
  std::array<TraceTime, 5> at{};
  std::int64_t step = 0;    ///< 0: no step, or not known
  std::uint32_t track = 0;  ///< span: number of the thread; exchange: number of the collective
  Kind kind = Kind::span;   ///< which of the two

  TraceTime begin() const { return at[0]; }                             ///< when the event began
  TraceTime end() const { return kind == Kind::span ? at[1] : at[4]; }  ///< when the event ended
};

/// Records what this process does, in memory that is reserved at the start. A process has at most one active recorder.
/// Traced code calls active(), which costs almost nothing if no recorder is active. Recording allocates no memory,
/// except for the first event of each thread. When the memory is full, each new event replaces the oldest one. May be
/// used by several threads.
class TraceRecorder {
 public:
  /// Becomes the active recorder. `capacity`: the largest number of events that are kept, at least 1. Throws Error if
  /// another recorder is active.
  explicit TraceRecorder(std::size_t capacity);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  /// The active recorder; null: nothing is traced.
  static TraceRecorder* active() { return active_.load(std::memory_order_acquire); }
  /// Ends the recording. Other threads may still add events that have begun.
  void stop();

  /// A copy of `name` that lives as long as the recorder.
  const char* keep(std::string name);
  /// Adds a span of the calling thread.
  void span(const char* name, const char* category, TraceTime begin, TraceTime end, std::int64_t step = 0);
  /// Adds an event. All members must be set, except the track of a span, which becomes that of the calling thread.
  void add(TraceEvent event);

  /// the kept events, sorted by begin; of two with one begin the longer is first
  std::vector<TraceEvent> events() const;
  std::vector<std::string> threads() const;              ///< names of the threads, by number
  std::size_t capacity() const { return ring_.size(); }  ///< the capacity that was given
  std::int64_t dropped() const;                          ///< the number of events that newer events have replaced

 private:
  std::uint32_t track_of_this_thread();

  static std::atomic<TraceRecorder*> active_;
  const std::uint64_t number_;  ///< number of the recorder in this process
  mutable std::mutex mutex_;
  std::vector<TraceEvent> ring_;
  std::int64_t added_ = 0;
  std::vector<std::string> threads_;
  std::deque<std::string> names_;
};

/// Names the calling thread in traces; `name` is static. Without a name the thread is "thread N".
void name_thread_in_traces(const char* name);

/// Traces the time from construction to destruction as a span of the calling thread, if a recorder is active.
class TraceSpan {
 public:
  /// `name` and `category` are static, or of TraceRecorder::keep().
  explicit TraceSpan(const char* name, const char* category, std::int64_t step = 0)
      : recorder_(TraceRecorder::active()), name_(name), category_(category), step_(step) {
    if (recorder_) begin_ = trace_now();
  }
  ~TraceSpan() {
    if (recorder_) recorder_->span(name_, category_, begin_, trace_now(), step_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceRecorder* recorder_;
  const char *name_, *category_;
  std::int64_t step_;
  TraceTime begin_ = 0;
};

}  // namespace keelson
