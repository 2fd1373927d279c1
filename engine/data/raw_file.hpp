#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace keelson {

/// A regular file read by position: any thread, no lock, no shared place. Throws InputError naming the file.
class RawFile {
 public:
  /// Opens the file for reading.
  explicit RawFile(const std::string& path);
  RawFile(RawFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  RawFile& operator=(RawFile&&) = delete;
  ~RawFile();

  /// As given.
  const std::string& path() const { return path_; }
  /// In bytes.
  std::int64_t size() const;
  void read(void* dst, std::int64_t bytes, std::int64_t offset) const;  ///< all of them, or throws

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace keelson
