#include "engine/base/trace.hpp"

#include <algorithm>
#include <chrono>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

/// The calling thread's number in the traces of one recorder.
struct Track {
  std::uint64_t recorder = 0;
  std::uint32_t number = 0;
};
thread_local Track track;
thread_local const char* thread_name = nullptr;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

std::atomic<TraceRecorder*> TraceRecorder::active_{nullptr};

TraceTime trace_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void name_thread_in_traces(const char* name) { thread_name = name; }

TraceRecorder::TraceRecorder(std::size_t capacity)
    // zeroed, so that there are no page faults later
    : number_(next_number()), ring_(std::max<std::size_t>(1, capacity)) {
  threads_.reserve(256);
  TraceRecorder* none = nullptr;
  if (!active_.compare_exchange_strong(none, this)) fail("another TraceRecorder is active in this process");
  track_of_this_thread();
}

TraceRecorder::~TraceRecorder() { stop(); }

void TraceRecorder::stop() {
  TraceRecorder* self = this;
  active_.compare_exchange_strong(self, nullptr);
}

std::uint32_t TraceRecorder::track_of_this_thread() {
  if (track.recorder != number_) {
    track = {number_, static_cast<std::uint32_t>(threads_.size())};
    threads_.push_back(thread_name ? thread_name : fmt::format("thread {}", threads_.size()));
  }
  return track.number;
}

const char* TraceRecorder::keep(std::string name) {
  const std::lock_guard lock(mutex_);
  return names_.emplace_back(std::move(name)).c_str();
}

void TraceRecorder::span(const char* name, const char* category, TraceTime begin, TraceTime end, std::int64_t step) {
  add({.name = name, .category = category, .at = {begin, end}, .step = step});
}

void TraceRecorder::add(TraceEvent event) {
  const std::lock_guard lock(mutex_);
  if (event.kind == TraceEvent::Kind::span) event.track = track_of_this_thread();
  ring_[static_cast<std::size_t>(added_++) % ring_.size()] = event;
}

std::vector<TraceEvent> TraceRecorder::events() const {
  const std::lock_guard lock(mutex_);
  const auto kept = std::min(static_cast<std::size_t>(added_), ring_.size());
  std::vector<TraceEvent> all(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(kept));
  std::sort(all.begin(), all.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin() != b.begin() ? a.begin() < b.begin() : a.end() > b.end();
  });
  return all;
}

std::vector<std::string> TraceRecorder::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

std::int64_t TraceRecorder::dropped() const {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(0, added_ - static_cast<std::int64_t>(ring_.size()));
}

}  // namespace keelson
