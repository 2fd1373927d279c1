#include "engine/train/checkpoint/run_state.hpp"

#include <algorithm>

namespace keelson {
namespace {

/// The part of the epoch under way that is done, as schedules count it.
double epoch_fraction(const RunState& s) {
  const auto done = static_cast<double>(s.step_in_epoch - s.part_step);
  const auto steps = static_cast<double>(steps_of_epoch(s) - s.part_step);
  return steps > 0 ? s.part_position + done / steps * (1 - s.part_position) : 1;
}

}  // namespace

std::int64_t samples_of_epoch(const RunState& s) { return s.epoch_samples > 0 ? s.epoch_samples : s.train_samples; }

std::int64_t steps_of_epoch(const RunState& s) {
  const std::int64_t left = samples_of_epoch(s) - s.part_sample;
  return s.part_step + (left + s.global_batch - 1) / s.global_batch;
}

std::int64_t samples_in_epoch(const RunState& s) {
  const std::int64_t of_part = (s.step_in_epoch - s.part_step) * s.global_batch;
  return std::min(s.part_sample + of_part, samples_of_epoch(s));
}

double rate_factor(const RunState& s) {
  const auto found = s.observed.find(rate_factor_entry);
  return found == s.observed.end() || found->second.empty() ? 1 : found->second[0];
}

namespace {

double rate_squares(const RunState& s) {
  const auto found = s.observed.find(rate_squares_entry);
  return found == s.observed.end() || found->second.empty() ? 0 : found->second[0];
}

}  // namespace

double averaging_weight(const RunState& s, double rate) {
  return rate > 0 ? rate * rate / (rate_squares(s) + rate * rate) : 0;
}

void count_rate(RunState& s, double rate) { s.observed[rate_squares_entry] = {rate_squares(s) + rate * rate}; }

double position(const RunState& s) { return static_cast<double>(s.epoch) + epoch_fraction(s); }

void begin_next_epoch(RunState& s) {
  ++s.epoch;
  s.step_in_epoch = 0;
  s.epoch_samples = 0;
  s.part_step = s.part_sample = 0;
  s.part_position = 0;
  s.loss_sum = 0;
  s.loss_samples = 0;
}

void go_on_with(RunState& s, int ranks) {
  if (ranks == s.world_size) return;
  const auto fraction = epoch_fraction(s);
  const auto samples = samples_in_epoch(s);
  if (s.step_in_epoch > 0) {
    s.part_step = s.step_in_epoch;
    s.part_sample = samples;
    s.part_position = fraction;
  }
  s.global_batch = s.global_batch * ranks / s.world_size;  // exact: ranks of replicas of one size
  s.world_size = ranks;
}

}  // namespace keelson
