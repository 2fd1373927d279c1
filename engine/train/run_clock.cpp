#include "engine/train/run_clock.hpp"

#include <algorithm>

namespace keelson {

void RunClock::begin(const RunState& state) {
  *this = {};
  seconds_before_ = state.seconds;
  steps_before_ = state.step;
}

void RunClock::begin_epoch() {
  epoch_ = {};
  epoch_steps_.clear();
  epoch_wall_ = 0;
  epoch_samples_ = 0;
}

void RunClock::add_step(const TimeSplit& parts, double wall, std::int64_t samples) {
  epoch_ += parts;
  run_ += parts;
  waits_.add(parts.exchange);
  epoch_steps_.push_back(wall);
  epoch_wall_ += wall;
  epoch_samples_ += samples;
}

double RunClock::median_step() const {
  if (epoch_steps_.empty()) return 0;
  auto sorted = epoch_steps_;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

RunTimes RunClock::gather(const RunState& state, Communicator& ranks) const {
  const double communication = std::min(waits_.communication(ranks), run_.exchange);
  auto times =
      gather_run_times({run_.compute, communication, run_.exchange - communication, run_.input.reading,
                        run_.input.decoding, run_.input.ranks, run_.copy, validation_, checkpoints_, changes_, 0},
                       watch_.seconds(), ranks);
  times.steps = state.step - steps_before_;
  return times;
}

}  // namespace keelson
