#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "engine/base/philox.hpp"

namespace keelson::search {

/// A sequence of random numbers that depends on its key alone. Every choice of a search is drawn from such a sequence,
/// so that the choices can be made again from the log.
class Draws {
 public:
  /// Begins the sequence of this key.
  explicit Draws(const philox::Key& key) : key_(key) {}

  /// Uniform in 0 ... n - 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(philox::below(key_, next_++, n)); }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(below(std::size_t{1} << 53)) * 0x1p-53; }
  /// Whether an event of this probability happens.
  bool happens(double probability) { return uniform() < probability; }
  /// Normal with mean 0 and standard deviation 1 (Box, Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  philox::Key key_;
  std::uint64_t next_ = 0;
};

}  // namespace keelson::search
