#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/epoch_order.hpp"

namespace keelson {

/// Which files of a data set are copied to which disks.
enum class StageMode : std::uint8_t {
  full,    ///< every disk gets all files
  sample,  ///< every disk gets the same number of files, drawn at random
  shard    ///< every file is on one disk
};

/// Says which places have which files of a data set, and which place reads a file. A place is a folder to which files
/// are copied: one on each node's own disk, or one that all nodes share.
///
/// The plan depends only on the arguments of its constructor, so every rank knows it without communication, and it
/// needs no memory. The files are brought into a random order; the file at position p of this order is read by place
/// p mod places, its owner. In StageMode::sample the order ends after count * places files, and each place draws the
/// files that it lacks from those of the others (Kurth et al., "Exascale Deep Learning for Climate Analytics", SC18).
class StagePlan {
 public:
  /// `files` files, from 0. `count`: files per place in StageMode::sample, at most `files`; else not used.
  StagePlan(std::int64_t files, StageMode mode, std::int64_t count, std::uint64_t seed, int places);

  /// Number of files that some place has.
  std::int64_t kept() const { return kept_; }
  /// The place that reads `file` from the source; -1: no place has the file.
  int owner(std::int64_t file) const;
  /// Whether this place has this file. An owner has its files.
  bool has(int place, std::int64_t file) const;
  /// The files that this place has, those that it owns first.
  std::vector<std::int64_t> files_of(int place) const;
  /// Which of `lanes` ranks of a place copies this file; the same number in all places.
  int lane(std::int64_t file, int lanes) const;

 private:
  std::int64_t owned(int place, std::int64_t end) const;
  EpochOrder draw(int place) const;
  std::int64_t drawn(int place) const;

  StageMode mode_;
  std::int64_t count_;
  std::uint64_t seed_;
  std::int64_t places_, kept_;
  EpochOrder order_;
};

}  // namespace keelson
