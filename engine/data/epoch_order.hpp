#pragma once

#include <cstdint>

#include "engine/base/philox.hpp"

namespace keelson {

/// The order of the samples of an epoch: a permutation of 0 ... size - 1 that depends only on size, seed and epoch. It
/// needs no memory, so a data set may have any number of samples, and each rank finds out what any other rank reads.
///
/// A Feistel network of 12 rounds, whose round function is Philox, permutes the numbers of as many bits as size - 1
/// has, at least 4; a number that is no sample is permuted again until it is one ("cycle walking": Black, Rogaway,
/// "Ciphers with arbitrary finite domains", CT-RSA 2002). At most twice on average, from 9 samples on.
class EpochOrder {
 public:
  /// `size` >= 0.
  EpochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch);
  std::int64_t size() const { return size_; }  ///< number of samples
  /// The sample at `position`, from 0 to size - 1.
  std::int64_t operator[](std::int64_t position) const;
  /// The position of `sample`, from 0 to size - 1.
  std::int64_t position_of(std::int64_t sample) const;

 private:
  std::uint64_t round(int round, std::uint64_t number) const;

  std::int64_t size_;
  philox::Key key_;
  int low_bits_, high_bits_;  ///< the two halves of a number
};

}  // namespace keelson
