#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/data/loader.hpp"

namespace keelson::detail {

/// How many batches and samples a loader has memory for.
struct LoaderRoom {
  int prefetch = 1;          ///< batches decoded ahead
  std::int64_t between = 0;  ///< samples between the stages; 0: one stage
  std::int64_t bytes = 0;    ///< of all these
};

/// By LoaderThreads::memory, of batches of `batch` samples, each batch of `batch_bytes` bytes. `extra`: batches besides
/// those decoded ahead. `stored_bytes`: of a sample between the stages; 0: there is one stage. `needs_stages`: there
/// are two, though the memory may be little. Throws InputError for a bound that the user has given and that is too
/// small.
LoaderRoom room_for(const LoaderThreads& threads, std::int64_t batch, std::int64_t batch_bytes, int extra,
                    std::int64_t stored_bytes, bool needs_stages);

/// A sample of a step, on its way through the stages of a loader.
struct SampleJob {
  /// Read and decoded here; come from another rank, to be decoded; read for another rank.
  enum class Kind : std::uint8_t { own, received, send };
  Kind kind;
  std::size_t buffer;   ///< of the step
  std::int64_t sample;  ///< of the batch; of Kind::send the number of the message
};

/// The threads of a loader: some read samples, others decode them. Samples that are read wait for a decoding thread in
/// a queue, which has room for a fixed number of samples. One mutex, which the owner also uses, guards all state; no
/// thread holds it while it reads or decodes.
class LoaderStages {
 public:
  /// What the threads do. The functions of the first two are called by several threads at the same time.
  struct Work {
    /// Reads a sample. Returns its stored form, in `room` or elsewhere, for decode(); null: nothing is to be decoded.
    std::function<const std::byte*(const SampleJob& job, std::byte* room)> read;
    std::function<void(const SampleJob& job, const std::byte* stored)> decode;
    std::function<void(const SampleJob& job)> has_read;  ///< with the mutex held: a sample goes on to be decoded
    /// With the mutex held: nothing more is to be done for the sample, or `error` says why it failed.
    std::function<void(const SampleJob& job, std::exception_ptr error)> is_done;
  };
  /// `rooms`: samples of `room_bytes` bytes between the stages; 0: reading threads do all, and there are no others.
  /// `mutex` and what `work` uses must outlive this. Throws Error if threads cannot be started.
  LoaderStages(std::mutex& mutex, Work work, const LoaderThreads& threads, std::int64_t rooms, std::int64_t room_bytes);
  ~LoaderStages();
  LoaderStages(const LoaderStages&) = delete;

  // ---- With the mutex held
  void add(const SampleJob& job) { reads_.push_back(job); }  ///< to be read, after all others
  /// Of another rank: `stored` is to be decoded.
  void add_decoding(const SampleJob& job, const std::byte* stored) { decodings_.push_back({job, stored, nullptr}); }
  void wake();                                                                         ///< after the adding
  bool is_idle() const { return reads_.empty() && decodings_.empty() && busy_ == 0; }  ///< nothing is to be done
  /// Drops what is to be decoded or read for this rank, and waits until all threads have nothing to do.
  void abandon(std::unique_lock<std::mutex>& lock);
  /// Notifies those who wait for `changed` whenever a sample leaves a stage.
  std::condition_variable& changed() { return changed_; }

  /// Counts the samples in the queues, and after some batches starts a thread of the stage for which the owner waits,
  /// if LoaderThreads allows it. A thread that does not help rests from then on. `waits`: of the owner so far.
  /// `is_first`: the batch was not prefetched, since an epoch has just begun; such waits say nothing.
  void count_batch(const LoaderWaits& waits, bool is_first);
  /// What the stages have done, but for LoaderStatistics::waits.
  LoaderStatistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Decoding {
    SampleJob job;
    const std::byte* stored;
    std::byte* room;  ///< null: the sample lies elsewhere
  };
  struct Stage {
    std::vector<std::thread> threads;
    std::condition_variable work;
    int working = 0;  ///< threads that work; those behind them rest
    int most = 0;     ///< threads that may work
    double busy = 0, starved = 0, blocked = 0;
    double queued = 0;  ///< sum over batches
    /// Seconds that the owner waited for each batch before the last thread was started; below 0: that thread has been
    /// judged, or there is none.
    double waited_before = -1;
  };
  bool can_read() const {
    return !reads_.empty() && (rooms_.empty() || !free_.empty() || reads_.front().kind == SampleJob::Kind::send);
  }
  using Run = void (LoaderStages::*)(int number);  ///< what thread `number` of a stage does
  void start(Stage& stage, const char* name, Run run);
  void read(int number);
  void decode(int number);
  void end();
  void grow(Stage& stage, double waited, Run run, const char* name);
  void look_again(const LoaderWaits& waits);

  std::mutex& mutex_;
  const Work work_;
  const std::vector<int> cpus_;
  std::vector<std::unique_ptr<std::byte[]>> rooms_;
  std::vector<std::byte*> free_;
  std::deque<SampleJob> reads_;
  std::deque<Decoding> decodings_;
  int busy_ = 0;  ///< threads that work
  bool stop_ = false;
  std::condition_variable changed_;
  Stage reading_, decoding_;
  std::int64_t batches_ = 0;
  // Since the number of threads was last looked at:
  Clock::time_point looked_at_ = Clock::now();
  std::int64_t batches_then_ = 0;
  LoaderWaits waits_then_;
};

}  // namespace keelson::detail
