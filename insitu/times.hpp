#pragma once

#include <chrono>
#include <cmath>

#include "insitu/keelson/insitu.h"

namespace keelson::insitu {

using Times = keelson_insitu_times;
using Clock = std::chrono::steady_clock;

/// Adds the seconds of its lifetime to `seconds`.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds) {}
  ~Timed() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timed(const Timed&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

/// The seconds of all work of this library.
inline double overhead(const Times& t) { return t.pack + t.infer + t.train + t.trigger + t.write; }

inline Times no_times() {
  Times t{};
  t.loss = std::nan("");
  return t;
}

/// The totals with one more step.
inline void add(Times& total, const Times& step) {
  total.step += 1;
  total.step_seconds += step.step_seconds;
  total.pack += step.pack;
  total.infer += step.infer;
  total.train += step.train;
  total.trigger += step.trigger;
  total.write += step.write;
  total.share = total.step_seconds > 0 ? overhead(total) / total.step_seconds : 0;
  total.train_steps += step.train_steps;
  if (!std::isnan(step.loss)) total.loss = step.loss;
}

}  // namespace keelson::insitu
