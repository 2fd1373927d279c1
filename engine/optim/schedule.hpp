#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keelson {

/// Learning rate as a function of the position in training. The rate rises linearly from `warmup_from` to `base` during
/// the first `warmup_epochs`. From then on the rate follows one of the shapes below, as if there had been no warm-up.
/// Positions are epochs with their fraction: steps done / steps per epoch.
struct Schedule {
  /// The shape of the rate after the warm-up.
  enum class Kind {
    constant,  ///< base
    /// base * factor of the last Step whose epoch has begun, base before the first Step. Factors are not multiplied
    /// with each other (MLPerf CosmoFlow: 32:0.25,64:0.125).
    steps,
    linear,  ///< from base to final over `epochs`
    cosine,  ///< from base to final over `epochs`, half a cosine (Loshchilov & Hutter 2017, without restarts)
    /// base * decay_factor^max(e - flat_epochs, 0) in the whole e-th epoch, e = 1, 2, ... (Zaremba et al. 2014)
    decay,
  };
  /// A change of the rate.
  struct Step {
    double epoch;   ///< position from which the factor applies
    double factor;  ///< factor of `base`
  };
  Kind kind = Kind::constant;  ///< shape
  double base = 1e-3;          ///< rate after the warm-up
  double final = 0;            ///< for linear and cosine: rate from position `epochs` on
  double epochs = 1;  ///< for linear and cosine: position at which the rate reaches `final`, counted from the start
  double warmup_epochs = 0;      ///< length of the warm-up; 0: none
  double warmup_from = 0;        ///< rate of the first step of the warm-up
  std::vector<Step> steps;       ///< for steps: in rising order of their epochs
  double decay_factor = 1;       ///< for decay: factor per epoch
  std::int64_t flat_epochs = 0;  ///< for decay: epochs with the rate `base` before the decay

  double at(double epoch) const;  ///< learning rate at this position
  std::string to_string() const;  ///< for logs: "0.001 -> 0 cosine over 10 epochs, warm-up from 0 over 1 epoch"
};

/// Steps from EPOCH:FACTOR pairs in rising order: "32:0.25,64:0.125". Throws InputError for any other text.
std::vector<Schedule::Step> parse_steps(const std::string& text);

}  // namespace keelson
