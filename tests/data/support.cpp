#include "tests/data/support.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace keelson::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "keelson-data-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder: " + pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string missing_exception() {
  ADD_FAILURE() << "the expected exception was not thrown";
  return "";
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_big_endian_int16(const std::string& path, const std::string& dataset, const hdf5::Dims& shape,
                            const std::vector<std::int16_t>& data) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t set = H5Dcreate2(file, dataset.c_str(), H5T_STD_I16BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(set, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), 0);
  H5Dclose(set), H5Sclose(space), H5Fclose(file);
}

}  // namespace keelson::test
