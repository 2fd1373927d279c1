#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/records.hpp"
#include "engine/train/run_times.hpp"

namespace keelson {

/// Measures wall time.
class Stopwatch {
 public:
  Stopwatch() { restart(); }
  void restart() { start_ = lap_ = Clock::now(); }                  ///< begins again
  double seconds() const { return between(start_, Clock::now()); }  ///< since the beginning
  /// Seconds since the last lap() or, before the first one, since the beginning.
  double lap() {
    const auto before = lap_;
    lap_ = Clock::now();
    return between(before, lap_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double between(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
  }
  Clock::time_point start_, lap_;
};

/// Adds up where the time of a run goes: of the epoch under way, and of the whole run.
class RunClock {
 public:
  void begin(const RunState& state);  ///< before the first step of a run
  void begin_epoch();                 ///< before the first step of an epoch
  /// Counts a step: its parts, its wall time, and its samples of all ranks.
  void add_step(const TimeSplit& parts, double wall, std::int64_t samples);
  void add_validation(double seconds) { validation_ += seconds; }   ///< counts a validation
  void add_checkpoint(double seconds) { checkpoints_ += seconds; }  ///< counts a checkpoint
  void add_change(double seconds) { changes_ += seconds; }          ///< counts the choice of a network

  double seconds() const { return seconds_before_ + watch_.seconds(); }  ///< for RunState::seconds
  const TimeSplit& epoch() const { return epoch_; }                      ///< parts of the epoch's steps
  /// Samples per second in the steps of the epoch, all ranks together; 0 without steps.
  double epoch_rate() const { return epoch_wall_ > 0 ? static_cast<double>(epoch_samples_) / epoch_wall_ : 0; }
  double median_step() const;  ///< seconds of the epoch's steps, wall; 0 without steps
  /// Where the time since begin() went. On rank 0 of all ranks, elsewhere empty. Collective.
  RunTimes gather(const RunState& state, Communicator& ranks) const;

 private:
  Stopwatch watch_;
  double seconds_before_ = 0;
  std::int64_t steps_before_ = 0;
  TimeSplit epoch_, run_;
  std::vector<double> epoch_steps_;                                         ///< seconds of each
  double epoch_wall_ = 0, validation_ = 0, checkpoints_ = 0, changes_ = 0;  ///< seconds
  std::int64_t epoch_samples_ = 0;
  WaitSplit waits_;
};

}  // namespace keelson
