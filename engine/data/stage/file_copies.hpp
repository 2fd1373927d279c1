#pragma once

#include <cstdint>
#include <string>

#include "engine/data/stage/stage_plan.hpp"

namespace keelson {

/// Copies of a data set's files on the disks of places, each of which has a part of the files (StageMode::shard and
/// sample). Files are counted as in the FileList of the source.
struct FileCopies {
  std::string folder;        ///< that has the copies of this rank's place
  StagePlan plan;            ///< which place has which files
  int place = 0;             ///< of this rank
  std::uint64_t digest = 0;  ///< FileList::digest() of the source

  /// Whether the place of this rank has a copy of a file.
  bool has(std::int64_t file) const { return plan.has(place, file); }
};

}  // namespace keelson
