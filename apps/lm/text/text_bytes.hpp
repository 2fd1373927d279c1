#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "engine/base/communicator.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/files/shared_bytes.hpp"

namespace keelson::lm {

/// The bytes of a text file, read by position, by any thread: from the file itself, or from a copy that the ranks of a
/// node share. Throws InputError that names the file.
class TextBytes {
 public:
  /// Opens the file.
  explicit TextBytes(const std::string& path) : path_(path), bytes_(std::in_place_type<RawFile>, path) {}
  /// Rank 0 reads the file and sends it to the other ranks, which need not see it; each node has one copy
  /// (SharedBytes). Throws on all ranks. Collective.
  TextBytes(const std::string& path, Communicator& ranks);

  const std::string& path() const { return path_; }                     ///< as given
  std::int64_t size() const;                                            ///< in bytes
  void read(void* dst, std::int64_t bytes, std::int64_t offset) const;  ///< reads all bytes, or throws

 private:
  std::string path_;
  std::variant<RawFile, SharedBytes> bytes_;
};

}  // namespace keelson::lm
