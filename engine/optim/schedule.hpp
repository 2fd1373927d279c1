#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keelson {

/// Learning rate as a function of the position in training: warm-up from `warmup_from` to `base` over the first
/// `warmup_epochs`, and after (and apart from) it one of the shapes below. Positions are fractional epochs: steps done
/// / steps per epoch.
struct Schedule {
  enum class Kind {
    constant,
    steps,  ///< base * factor of the last boundary passed; factors are absolute, not cumulative (MLPerf CosmoFlow: {32:
            ///< .25, 64: .125})
    linear,  ///< base -> final over `epochs`
    cosine,  ///< base -> final over `epochs`, half a cosine (Loshchilov & Hutter 2017, without restarts)
    decay,   ///< base * decay_factor^max(e - flat_epochs, 0) all through the e-th epoch, e = 1, 2, ... (Zaremba et al.
             ///< 2014)
  };
  struct Step {
    double epoch;
    double factor;
  };
  Kind kind = Kind::constant;
  double base = 1e-3;
  double final = 0;
  double epochs = 1;
  double warmup_epochs = 0;
  double warmup_from = 0;
  std::vector<Step> steps;
  double decay_factor = 1;
  std::int64_t flat_epochs = 0;

  double at(double epoch) const;
  std::string to_string() const;
};

/// "32:0.25,64:0.125" -> steps; refuses (InputError) anything else.
std::vector<Schedule::Step> parse_steps(const std::string& text);

}  // namespace keelson
