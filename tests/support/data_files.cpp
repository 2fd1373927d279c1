#include "tests/support/data_files.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/base/philox.hpp"

namespace keelson::testing {

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

std::string write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

void write_foreign_int16(const std::string& path, const std::string& dataset, Storage storage, const hdf5::Dims& shape,
                         const std::vector<std::int16_t>& data) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const hid_t file = std::filesystem::exists(path) ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                                   : H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (storage == Storage::compressed) {
    std::vector<hsize_t> chunk = dims;
    for (auto& c : chunk) c = (c + 1) / 2;
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) H5Pset_deflate(creation, 4);
  } else if (storage == Storage::little_endian_compact) {
    H5Pset_layout(creation, H5D_COMPACT);
  }
  const hid_t type = storage == Storage::big_endian ? H5T_STD_I16BE : H5T_STD_I16LE;
  const hid_t set = H5Dcreate2(file, dataset.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(set, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), 0);
  H5Dclose(set), H5Pclose(creation), H5Sclose(space), H5Fclose(file);
}

template <class T>
std::vector<T> counts(std::int64_t elements, std::uint64_t seed) {
  std::vector<T> v(static_cast<std::size_t>(elements));
  const philox::Key key{seed, philox::stream_of("counts"), 0};
  for (std::int64_t i = 0; i < elements; ++i) {
    const float u = philox::uniform(key, static_cast<std::uint64_t>(i));
    v[static_cast<std::size_t>(i)] = static_cast<T>(u * u * u * 120);
  }
  return v;
}
template std::vector<std::uint8_t> counts(std::int64_t, std::uint64_t);
template std::vector<std::int16_t> counts(std::int64_t, std::uint64_t);
template std::vector<std::uint16_t> counts(std::int64_t, std::uint64_t);
template std::vector<std::int32_t> counts(std::int64_t, std::uint64_t);
template std::vector<float> counts(std::int64_t, std::uint64_t);
template std::vector<double> counts(std::int64_t, std::uint64_t);

}  // namespace keelson::testing
