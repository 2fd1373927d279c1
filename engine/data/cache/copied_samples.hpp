#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/stage/file_copies.hpp"

namespace keelson {

/// Which rank holds which samples, if each node has copies of a part of the files (FileCopies). The ranks of a place
/// share its samples evenly. Samples of files without a copy are dealt to all ranks, for their memory.
///
/// A rank keeps the first samples of its own in memory: those without a copy, then those with one, each in the order of
/// the data set.
class CopiedSamples {
 public:
  /// `room`: samples that this rank can keep in memory. `data` must outlive this. Collective in `ranks`, those that
  /// send samples to each other.
  CopiedSamples(const Dataset& data, std::shared_ptr<const FileCopies> copies, std::int64_t room, Communicator& ranks);

  /// The rank that the others ask for the sample, since it has a copy or keeps the sample in memory; -1: none.
  int holder(std::int64_t sample) const;
  /// The ranks that read the sample from a copy of the place that has read it; may be empty.
  std::span<const int> near(std::int64_t sample) const;
  /// Whether this rank reads the sample from a copy.
  bool has(int rank, std::int64_t sample) const;
  std::int64_t kept() const { return std::ssize(without_copy_) + std::ssize(with_copy_); }  ///< in this rank's memory
  /// The number of a sample among those in this rank's memory; -1: not there.
  std::int64_t slot_of(std::int64_t sample) const;

 private:
  int owner(std::int64_t sample) const;

  const Dataset& data_;
  std::shared_ptr<const FileCopies> copies_;
  std::vector<int> place_of_;               ///< place of each rank
  std::vector<std::vector<int>> ranks_of_;  ///< ranks of each place; may be empty
  std::vector<std::int64_t> with_copy_;     ///< of the samples in this rank's memory, sorted
  std::vector<std::int64_t> without_copy_;  ///< the same
  std::vector<std::int64_t> end_;           ///< each rank keeps its samples without a copy up to this number
};

}  // namespace keelson
