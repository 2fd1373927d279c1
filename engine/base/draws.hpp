#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "engine/base/philox.hpp"

namespace keelson {

/// A sequence of random numbers: number i is a function of the key and of i alone, so an object that draws with a key
/// of its own is the same wherever it is made. For generators of data, whose objects need an unknown count of numbers.
class Draws {
 public:
  /// `key`: of the object.
  explicit Draws(const philox::Key& key) : key_(key) {}
  double uniform() { return static_cast<double>(philox::uniform(key_, next_++)); }  ///< in [0, 1), multiples of 2^-24
  /// Uniform between the two.
  double uniform(double least, double most) { return least + (most - least) * uniform(); }
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }  ///< mean > 0
  /// Normal, mean 0, by Box and Muller's transform.
  double normal(double deviation) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return deviation * radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Gamma distribution of scale 1, shape > 0 (Marsaglia and Tsang, "A simple method for generating gamma variables",
  /// ACM TOMS 26, 2000; below shape 1 by their section 6).
  double gamma(double shape) {
    if (shape < 1) {
      const double power = std::pow(1 - uniform(), 1 / shape);
      return power * gamma(shape + 1);
    }
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(1), v = (1 + c * x) * (1 + c * x) * (1 + c * x);
      if (v > 0 && std::log(1 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }
  /// Beta distribution, a, b > 0.
  double beta(double a, double b) {
    const double x = gamma(a), y = gamma(b);
    return x / (x + y);
  }
  /// Gumbel distribution of mode 0, scale > 0.
  double gumbel(double scale) { return -scale * std::log(-std::log(1 - uniform())); }
  /// Poisson distribution, mean >= 0: below 12 by multiplying uniform numbers (Knuth), else by transformed rejection
  /// (Hoermann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS).
  std::int64_t poisson(double mean) {
    constexpr double rejection_from = 12;
    if (mean < rejection_from) {
      const double limit = std::exp(-mean);
      std::int64_t n = 0;
      for (double p = 1 - uniform(); p > limit; p *= 1 - uniform()) ++n;
      return n;
    }
    const double b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
      const double u = uniform() - 0.5, v = 1 - uniform(), s = 0.5 - std::abs(u);
      const double k = std::floor((2 * a / s + b) * u + mean + 0.43);
      if (s >= 0.07 && v <= accept) return static_cast<std::int64_t>(k);
      if (k < 0 || (s < 0.013 && v > s)) continue;
      if (std::log(v * inverse_alpha / (a / (s * s) + b)) <= k * std::log(mean) - mean - std::lgamma(k + 1))
        return static_cast<std::int64_t>(k);
    }
  }

 private:
  philox::Key key_;
  std::uint64_t next_ = 0;
};

}  // namespace keelson
