#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/communicator.hpp"

namespace keelson {

/// Bytes that all ranks read and that each node stores once, for tables that grow with the number of files.
///
/// The lowest rank of each node writes the bytes to a temporary file in TMPDIR, else in /tmp. After the ranks of the
/// node have opened the file, its name is removed, so the file disappears when they end. finish() maps the file in each
/// of them. The pages of the mapping are memory of the node (the system's page cache, or the tmpfs that /tmp is), one
/// copy for all ranks of the node. Bytes are sent in pieces of 1 MiB, of which four are in flight. While bytes are
/// appended, a rank's own memory is a buffer of at most 4 MiB, for any number of bytes.
class SharedBytes {
 public:
  /// Throws InputError on all ranks, naming the folder, if no file can be made, or if ranks of one node do not see the
  /// same folder. `communicator` null: one rank. Collective.
  explicit SharedBytes(Communicator* communicator);
  ~SharedBytes();
  SharedBytes(SharedBytes&& other) noexcept;
  SharedBytes& operator=(SharedBytes&&) = delete;

  /// Appends the `bytes` bytes at `data` of rank `root`. The other ranks must give the same `bytes`; their `data` is
  /// not read and may be null. Collective.
  void append(const void* data, std::size_t bytes, int root);
  /// Maps the appended bytes. Throws InputError on all ranks, naming the folder, if the file could not be written (a
  /// full disk). Called once, after the last append(). Collective.
  void finish();

  /// All bytes, aligned to a page, valid as long as this object. To be called after finish().
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// A hash of all bytes, CRC-32C, the same on all ranks.
  std::uint64_t digest() const { return digest_; }

 private:
  void open();
  void append_pieces(const char* from, std::size_t bytes, int root);
  void keep(const char* data, std::size_t bytes);
  void write(const void* data, std::size_t bytes);

  Communicator* communicator_;  ///< used up to finish()
  std::string folder_;
  int descriptor_ = -1, write_error_ = 0;
  bool writes_ = true;  ///< true on the lowest rank of each node
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint32_t digest_;
};

}  // namespace keelson
