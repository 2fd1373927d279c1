#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/hdf5/hdf5.hpp"

/// Parts that tests of data share: a temporary folder, and files that other programs might have written.
namespace keelson::testing {

/// A new folder. The destructor removes it with its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The message of the exception E that `f` throws; if `f` does not throw, the test fails, and the result is "".
std::string missing_exception();
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return missing_exception();
}

std::string bytes_of(const std::string& path);
/// Returns the path.
std::string write_file(const std::string& path, const std::string& bytes);

/// How other programs may store the same numbers.
enum class Storage { big_endian, compressed, little_endian_compact };
/// Adds a dataset of int16 to a file, which is made if it does not exist.
void write_foreign_int16(const std::string& path, const std::string& dataset, Storage storage, const hdf5::Dims& shape,
                         const std::vector<std::int16_t>& data);

/// Counts that look like a universe's, different for every `seed`.
template <class T>
std::vector<T> counts(std::int64_t elements, std::uint64_t seed);

}  // namespace keelson::testing
