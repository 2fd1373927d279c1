#include "engine/train/checkpoint/detail/valid_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/base/error.hpp"
#include "engine/train/checkpoint/state_text.hpp"

namespace keelson::detail {
namespace {

constexpr std::int64_t most_count = std::int64_t{1} << 53;  // also exact as a double
constexpr std::int64_t most_int = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse_value(const std::string& file, const std::string& what, const std::string& value,
                               const std::string& expected) {
  refuse("{}: {} is {}, expected {}; no run has written this: use an earlier checkpoint or best.h5 of the run", file,
         what, value, expected);
}

/// The checks of one state.
struct Checks {
  const std::string& file;

  void count(const char* name, std::int64_t value, std::int64_t least = 0, std::int64_t most = most_count) const {
    if (value < least || value > most)
      refuse_value(file, name, std::to_string(value), fmt::format("{} to {}", least, most));
  }
  void number(const std::string& name, double value, double least, double most) const {
    if (!(value >= least && value <= most))
      refuse_value(file, name, fmt::format("{}", value), fmt::format("{} to {}", least, most));
  }
};

void check_part(const Checks& c, const RunState& s) {
  c.count("part_step", s.part_step, 0, s.step_in_epoch);
  c.count("part_sample", s.part_sample, 0, s.part_step > 0 ? samples_of_epoch(s) : 0);
  c.number("part_position", s.part_position, 0, s.part_step > 0 ? 1 : 0);
}

}  // namespace

void require_valid(const RunState& s, const std::string& file) {
  constexpr double large = std::numeric_limits<double>::max();
  const Checks c{file};
  c.count("epoch", s.epoch);
  c.count("step", s.step);
  c.count("step_in_epoch", s.step_in_epoch);
  c.count("samples", s.samples);
  c.count("global_batch", s.global_batch, 0, most_int);
  c.count("train_samples", s.train_samples);
  c.count("epoch_samples", s.epoch_samples, 0, s.train_samples);
  c.count("world_size", s.world_size, 1, most_int);
  c.number("seconds", s.seconds, 0, large);
  c.number("loss_sum", s.loss_sum, -large, large);
  c.number("loss_samples", s.loss_samples, 0, static_cast<double>(most_count));
  c.count("best_epoch", s.best_epoch, -1, s.epoch);
  c.number("gradient_scale", s.loss_scale, std::numeric_limits<float>::min(), std::numeric_limits<float>::max());
  c.count("good_steps", s.good_steps, 0, most_int);
  c.count("skipped_steps", s.skipped_steps, 0, most_int);
  check_part(c, s);
  for (const auto& [name, values] : s.observed)
    for (const double v : values) c.number(name, v, -large, large);
}

void require_own_name(const std::string& observed, const std::string& file) {
  bool taken = observed == "config";
  const auto compare = [&](const char* name, const auto&) { taken = taken || observed == name; };
  const RunState any;
  visit_fields(any, compare);
  visit_part(any, compare);
  visit_epoch(any, compare);
  if (taken) refuse_value(file, "an entry of observed_names", "'" + observed + "'", "no name of another field");
}

void require_valid(std::span<const float> values, const std::string& array, bool non_negative,
                   const std::string& file) {
  constexpr float most = 1e36F;  // the sum of a few hundred of them overflows
  const float least = non_negative ? 0 : -most;
  const auto bad = std::ranges::find_if(values, [&](float v) { return !(v >= least && v <= most); });
  if (bad == values.end()) return;
  refuse_value(file, fmt::format("{}, element {}", array, bad - values.begin()), fmt::format("{}", *bad),
               fmt::format("{} to {}", least, most));
}

}  // namespace keelson::detail
