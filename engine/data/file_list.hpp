#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/shared_bytes.hpp"

namespace keelson {

/// The files of a data set. Rank 0 lists them, and all ranks know the names, in the same order. The names lie in
/// SharedBytes: no memory of a rank grows with the number of files, but on rank 0 while the constructor runs.
///
/// The names are below a folder that may have another path on each rank, as the path may that each rank is given.
class FileList {
 public:
  /// Finds the files that a path names, sorted; throws InputError if there are none.
  using Find = std::function<std::vector<std::string>(const std::string& path)>;

  /// `path`: a file, a folder, or a pattern, as in find_hdf5_files(). Throws on all ranks what `find` throws on rank 0,
  /// and InputError where a rank has nothing at its `path`. `communicator` null: alone. Collective.
  FileList(const std::string& path, Communicator* communicator, const Find& find);

  /// Number of files.
  std::int64_t size() const { return size_; }
  std::string name(std::int64_t i) const;                                   ///< "b/x.h5", the same on all ranks
  std::string path(std::int64_t i) const { return prefix_ + name(i); }      ///< "data/b/x.h5", of this rank
  std::string folder() const;                                               ///< "data"; empty: the current one
  std::uint64_t digest() const { return table_.digest(); }                  ///< of all names
  std::int64_t shared_bytes() const { return std::ssize(table_.bytes()); }  ///< of the node

 private:
  std::int64_t end_of_name(std::int64_t i) const;

  std::string prefix_;  ///< of every path on this rank: "", "data/"
  std::int64_t size_ = 0;
  SharedBytes table_;  ///< the end of each name in the names (8 bytes each), then the names without a gap
};

}  // namespace keelson
