#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace keelson {

/// A regular file that is read by position, by any thread, without locks or a shared position. Throws InputError that
/// names the file.
class RawFile {
 public:
  /// Opens the file for reading.
  explicit RawFile(const std::string& path);
  RawFile(RawFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  RawFile& operator=(RawFile&&) = delete;
  ~RawFile();

  /// The path as given.
  const std::string& path() const { return path_; }
  /// Size in bytes.
  std::int64_t size() const;
  void read(void* dst, std::int64_t bytes, std::int64_t offset) const;  ///< reads all bytes, or throws
  /// Tells the system that the file will be read once, from the beginning to the end: it may read ahead.
  void advise_sequential() const;
  /// Tells the system that its page cache need not keep the file.
  void advise_unneeded() const;

 private:
  void read_directly(void* dst, std::int64_t bytes, std::int64_t offset) const;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace keelson
