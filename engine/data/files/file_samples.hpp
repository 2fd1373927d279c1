#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/communicator.hpp"
#include "engine/data/files/shared_bytes.hpp"

namespace keelson {

/// Which file has which sample, for files with any number of samples each. The table lies in SharedBytes, so a rank's
/// memory does not grow with the number of files.
class FileSamples {
 public:
  /// `count(i)` is the number of samples in file i. Each rank calls it for a share of the files, so that every file is
  /// opened once; if it throws on a rank, all ranks throw. `communicator` null: one rank. Collective.
  FileSamples(std::int64_t files, Communicator* communicator, const std::function<std::int64_t(std::int64_t)>& count);

  /// Number of samples in all files.
  std::int64_t size() const { return files_ == 0 ? 0 : end_of(files_ - 1); }
  /// Number of samples in a file.
  std::int64_t size_of(std::int64_t file) const { return end_of(file) - end_of(file - 1); }
  /// A sample's place.
  struct Location {
    std::int64_t file = 0;    ///< number of the file
    std::int64_t sample = 0;  ///< number within the file
  };
  Location locate(std::int64_t sample) const;               ///< the place of sample 0 ... size() - 1
  std::uint64_t digest() const { return table_.digest(); }  ///< a hash of all numbers, the same on all ranks

 private:
  std::int64_t end_of(std::int64_t file) const;

  std::int64_t files_;
  SharedBytes table_;  ///< for each file, the number of samples in this file and all files before it (8 bytes each)
};

}  // namespace keelson
