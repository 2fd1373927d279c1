#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/files/file_list.hpp"
#include "engine/data/files/shared_bytes.hpp"
#include "engine/data/stage/stage.hpp"

namespace keelson::detail {

/// The files to be staged: their names, sizes and times of change. Rank 0 asks the file system; the others get the
/// answers, which lie in SharedBytes.
class StageSource {
 public:
  /// Throws InputError on all ranks if there are no files, or if the size of a file cannot be found. Collective.
  StageSource(const StageOptions& options, Communicator* world);

  /// Number of files.
  std::int64_t size() const { return list_.size(); }
  std::string name(std::int64_t file) const { return list_.name(file); }  ///< relative to the folder: "a/x.h5"
  std::string path(std::int64_t file) const { return list_.path(file); }  ///< on this rank
  std::int64_t bytes(std::int64_t file) const;                            ///< size of the file
  std::uint64_t digest_of_names() const { return list_.digest(); }        ///< FileList::digest()
  /// A hash of the names, sizes and times of change of all files: differs if the source has changed.
  std::uint64_t digest() const;

  /// A small file beside the data, which rank 0 has read.
  struct Small {
    std::string name;     ///< in the folder of the copies: that of the first file
    std::string content;  ///< all bytes
  };
  /// Those of StageOptions::beside that exist; on all ranks.
  const std::vector<Small>& beside() const { return beside_; }

 private:
  struct Facts {
    std::int64_t bytes = 0, changed = 0;  ///< changed: nanoseconds, as the file system counts them
  };
  Facts look(std::int64_t file) const;
  void read_beside(const std::vector<std::string>& names, Communicator* world);

  FileList list_;
  SharedBytes facts_;
  std::vector<Small> beside_;
};

}  // namespace keelson::detail
