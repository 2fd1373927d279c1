#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/hdf5.hpp"

/// What the tests of engine/data share: a folder of their own, and files that other programs might have written.
namespace keelson::test {

/// A new folder that goes with its content.
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

/// The message of the E that `f` throws; "" and a failed test if it throws none.
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
void write_big_endian_int16(const std::string& path, const std::string& dataset, const hdf5::Dims& shape,
                            const std::vector<std::int16_t>& data);

}  // namespace keelson::test
