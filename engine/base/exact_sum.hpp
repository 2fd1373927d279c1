#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/base/communicator.hpp"

namespace keelson {

/// A sum of doubles that is exact until value() rounds it. So the sum depends neither on the order of the terms nor on
/// which rank adds which of them.
///
/// Method: a number of fixed point that spans all doubles, in digits of 32 bits. Each digit lies in 64 bits, so that
/// most additions need no carry: R. M. Neal, "Fast exact summation using small and large superaccumulators",
/// arXiv:1505.05571 (2015). (Binned sums, J. Demmel and H. D. Nguyen, "Parallel Reproducible Summation",
/// IEEE Transactions on Computers 64 (2015), are reproducible in less memory, but not exact.)
///
/// Memory: 568 bytes. An infinity or NaN among the terms makes the value that of the plain sum.
class ExactSum {
 public:
  /// Adds a term, exactly.
  void add(double term);
  /// The sum, with an error below one unit in the last place; exactly the sum where that is a double.
  double value() const;
  /// Makes each sum that of all ranks, on all ranks. All ranks give equally many sums; reduce each once. `communicator`
  /// null: alone. Collective.
  static void reduce(std::span<ExactSum> sums, Communicator* communicator);

 private:
  static constexpr std::size_t digits = 68;
  enum Special : std::size_t { nan = digits, positive_infinity, negative_infinity, count };
  void carry();

  std::array<std::int64_t, count> at_{};  ///< digit i counts 2^(32 i - 1074); then how many terms were special
  std::int32_t uncarried_ = 0;            ///< terms since carry()
};

}  // namespace keelson
