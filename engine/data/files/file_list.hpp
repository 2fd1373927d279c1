#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/files/shared_bytes.hpp"
#include "engine/data/stage/file_copies.hpp"

namespace keelson {

/// The files of a data set. Rank 0 lists them, and all ranks know the names, in the same order. The names lie in
/// SharedBytes, so a rank's memory does not grow with the number of files, except on rank 0 during the constructor.
///
/// Names are relative to a folder. Each rank may be given another path, and the folder may have another path on each
/// rank.
class FileList {
 public:
  /// Finds the files that a path names, sorted; throws InputError if there are none.
  using Find = std::function<std::vector<std::string>(const std::string& path)>;

  /// `path`: a file, a folder, or a pattern, as in find_files(). If `find` throws on rank 0, all ranks throw the
  /// same exception. Throws InputError if a rank has no files at its `path`. `copies`: of the files; null: none. Throws
  /// InputError on all ranks if they are copies of other files. `communicator` null: one rank. Collective.
  FileList(const std::string& path, Communicator* communicator, const Find& find,
           std::shared_ptr<const FileCopies> copies = nullptr);

  /// Number of files.
  std::int64_t size() const { return size_; }
  std::string name(std::int64_t i) const;       ///< "b/x.h5", the same on all ranks
  std::string path(std::int64_t i) const;       ///< "data/b/x.h5", or its copy, on this rank
  std::string folder() const;                   ///< "data"; empty: the current folder
  std::string folder_of(std::int64_t i) const;  ///< the same, or that of the copies
  bool is_copied(std::int64_t i) const { return copies_ && copies_->has(i); }  ///< whether path() is that of a copy
  std::uint64_t digest() const { return table_.digest(); }                     ///< hash of all names
  std::int64_t shared_bytes() const { return std::ssize(table_.bytes()); }     ///< bytes that the node's ranks share

 private:
  std::int64_t end_of_name(std::int64_t i) const;

  std::shared_ptr<const FileCopies> copies_;
  std::string prefix_;  ///< prefix of every path on this rank: "", "data/"
  std::int64_t size_ = 0;
  SharedBytes table_;  ///< first the end position of each name (8 bytes each), then the names without gaps
};

}  // namespace keelson
