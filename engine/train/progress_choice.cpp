#include "engine/train/progress_choice.hpp"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.hpp"
#include "engine/tune/choice_cache.hpp"

namespace keelson {
namespace {

constexpr int warm_up = 8;     // steps: caches, threads, and the measurement of single calls
constexpr int measured = 8;    // steps
constexpr double gain = 0.98;  // smaller gains are noise

/// Calls, thread, thread, calls, calls ...: what gets slower or faster with time then concerns both alike.
bool by_thread(int step) { return (step + 1) / 2 % 2 == 1; }

}  // namespace

ProgressChoice::ProgressChoice(Communicator* ranks, ProgressBy wanted, std::vector<int> cpus)
    : ranks_(nullptr), cpus_(std::move(cpus)) {
  if (!ranks || ranks->size() == 1 || wanted == ProgressBy::calls) return;
  const bool can = ranks->progress().use_thread(wanted == ProgressBy::thread, cpus_);
  if (wanted == ProgressBy::thread && !can)
    refuse(
        "progress by a thread is not possible here: it needs an MPI that may be called from more than one thread "
        "(MPI_THREAD_SERIALIZED), computing on CPUs, and no --with-ft. Leave the choice to auto");
  if (wanted == ProgressBy::thread) return;
  std::int64_t all = can && !tuning_is_off() ? 1 : 0;
  ranks->on_host().allreduce(&all, 1, Reduction::min);
  if (all == 1) ranks_ = ranks;
}

void ProgressChoice::step_took(double seconds) {
  if (!ranks_) return;
  const int step = steps_++ - warm_up;
  if (step >= 0) (by_thread(step) ? by_thread_ : by_calls_) += seconds;
  if (step + 1 == measured) return choose();
  ranks_->progress().use_thread(step + 1 >= 0 && by_thread(step + 1), cpus_);
}

void ProgressChoice::choose() {
  double times[] = {by_calls_, by_thread_};
  ranks_->on_host().allreduce(times, 2, Reduction::max);
  const bool thread = times[1] < gain * times[0];
  ranks_->progress().use_thread(thread, cpus_);
  constexpr double to_ms = 1e3 / (measured / 2.0);
  finding_ = fmt::format("progress by {}: steps of {:.1f} ms; by {}: {:.1f} ms", thread ? "a thread" : "calls",
                         times[thread ? 1 : 0] * to_ms, thread ? "calls" : "a thread", times[thread ? 0 : 1] * to_ms);
  ranks_ = nullptr;
}

}  // namespace keelson
