#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "engine/base/philox.hpp"

namespace keelson::app {

/// Random numbers of one simulated event: a function of the key and of how many were drawn before.
class Draws {
 public:
  explicit Draws(const philox::Key& key) : key_(key) {}
  double uniform() { return static_cast<double>(philox::uniform(key_, next_++)); }  ///< in [0, 1)
  double uniform(double least, double most) { return least + (most - least) * uniform(); }
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }
  /// By Box and Muller's transform.
  double normal(double deviation) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return deviation * radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Of a whole number of exponentials: Erlang's distribution.
  double gamma(int shape, double scale) {
    double sum = 0;
    for (int i = 0; i < shape; ++i) sum += exponential(scale);
    return sum;
  }
  /// Of whole numbers, as a quotient of gamma variables.
  double beta(int a, int b) {
    const double first = gamma(a, 1);
    return first / (first + gamma(b, 1));
  }
  /// Mode 0.
  double gumbel(double scale) { return -scale * std::log(-std::log(1 - uniform())); }
  /// By inversion below a mean of 30, which takes one number; above it a rounded normal variable.
  std::int64_t poisson(double mean) {
    if (mean >= 30) return std::max<std::int64_t>(0, std::llround(mean + normal(std::sqrt(mean))));
    double rest = uniform(), part = std::exp(-mean);
    std::int64_t n = 0;
    for (; rest >= part && n < 200; ++n) {
      rest -= part;
      part *= mean / static_cast<double>(n + 1);
    }
    return n;
  }

 private:
  philox::Key key_;
  std::uint64_t next_ = 0;
};

}  // namespace keelson::app
