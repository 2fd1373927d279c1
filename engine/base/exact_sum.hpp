#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/base/communicator.hpp"

namespace keelson {

/// A sum of doubles that is exact until value() rounds it. So the sum does not depend on the order of the terms, or on
/// which rank adds which terms.
///
/// Method: a fixed-point number with the range of all doubles, in digits of 32 bits. Each digit is stored in 64 bits,
/// so that most additions need no carry: R. M. Neal, "Fast exact summation using small and large superaccumulators",
/// arXiv:1505.05571 (2015). (Binned sums, J. Demmel and H. D. Nguyen, "Parallel Reproducible Summation", IEEE
/// Transactions on Computers 64 (2015), are reproducible in less memory, but not exact.)
///
/// Memory: 568 bytes. If a term is an infinity or NaN, the value is that of the plain sum.
class ExactSum {
 public:
  /// Adds a term, exactly.
  void add(double term);
  /// The sum, with an error below one unit in the last place; exact if the sum is a double.
  double value() const;
  /// Replaces each sum by the sum over all ranks, on all ranks. All ranks must give the same number of sums; reduce
  /// each sum only once. `communicator` null: one rank. Collective.
  static void reduce(std::span<ExactSum> sums, Communicator* communicator);

 private:
  static constexpr std::size_t digits = 68;
  enum Special : std::size_t { nan = digits, positive_infinity, negative_infinity, count };
  void carry();

  /// digit i counts 2^(32 i - 1074); the last entries count infinities and NaNs
  std::array<std::int64_t, count> at_{};
  std::int32_t uncarried_ = 0;  ///< terms since carry()
};

}  // namespace keelson
