#include <gtest/gtest.h>
#include <hdf5.h>
#include <zlib.h>

#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "tests/support/data_files.hpp"

// Data sets in chunks, which are read without HDF5's lock: what HDF5 itself reads is the reference.
namespace keelson {
namespace {

using hdf5::Dims;
using hdf5::File;
using hdf5::detail::Handle;
using testing::message_of;
using testing::TemporaryFolder;

constexpr hsize_t shape[] = {7, 10, 6}, chunk[] = {3, 4, 6};
constexpr std::size_t elements = 7 * 10 * 6;

/// How a file is written.
struct Written {
  std::vector<char> filters;  ///< d: deflate, s: shuffle, f: fletcher32
  bool partial_unfiltered = false, newest = false, unlimited = false;
  hsize_t rows = shape[0];  ///< the rows that are written; the others have the fill value
};

std::vector<char> letters(const std::string& text) { return {text.begin(), text.end()}; }

template <class T>
std::vector<T> random_values(std::size_t n) {
  std::vector<T> v(n);
  const philox::Key key{1, philox::stream_of("chunks"), 0};
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(philox::uniform(key, i / 3) * 100);
  return v;
}

Handle creation_of(const Written& w) {
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(creation, 3, chunk);
  for (const char f : w.filters) {
    if (f == 'd') H5Pset_deflate(creation, 6);
    if (f == 's') H5Pset_shuffle(creation);
    if (f == 'f') H5Pset_fletcher32(creation);
  }
  if (w.partial_unfiltered) H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  return creation;
}

template <class T>
void write_chunks(const std::string& path, hid_t stored, const std::vector<T>& values, const Written& w) {
  const hid_t native = hdf5::detail::native(hdf5::type_of<T>());
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (w.newest) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose);
  const hsize_t most[] = {w.unlimited ? H5S_UNLIMITED : shape[0], shape[1], shape[2]};
  const Handle space(H5Screate_simple(3, shape, most), H5Sclose);
  const Handle creation = creation_of(w);
  const T fill = 42;
  H5Pset_fill_value(creation, native, &fill);
  const Handle set(H5Dcreate2(file, "x", stored, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  const hsize_t start[] = {0, 0, 0}, count[] = {w.rows, shape[1], shape[2]};
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
  const Handle memory(H5Screate_simple(3, count, nullptr), H5Sclose);
  ASSERT_GE(H5Dwrite(set, native, memory, space, H5P_DEFAULT, values.data()), 0);
}

template <class T>
std::vector<T> by_library(const std::string& path) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access, false, true);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  const Handle set(H5Dopen2(file, "x", H5P_DEFAULT), H5Dclose);
  std::vector<T> v(elements);
  const hid_t native = hdf5::detail::native(hdf5::type_of<T>());
  EXPECT_GE(H5Dread(set, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, v.data()), 0);
  return v;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Reads as T while this thread holds HDF5's lock, so that only another way than the library's can come to an end.
template <class T>
std::vector<T> read_without_lock(const File& file, const Dims& offset, const Dims& count) {
  std::vector<T> v(static_cast<std::size_t>(count[0] * count[1] * count[2]));
  file.read_box("x", offset, count, v.data());  // learns where the chunks lie
  std::ranges::fill(v, T{1});
  std::future<void> reading;
  bool in_time = false;
  {
    const hdf5::detail::Lock lock;
    reading = std::async(std::launch::async, [&] { file.read_box("x", offset, count, v.data()); });
    in_time = reading.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  }
  reading.get();
  EXPECT_TRUE(in_time) << "the read waited for HDF5's lock";
  return v;
}

/// `locked`: the library itself is expected to read.
template <class T>
void expect_equal_to_library(const std::string& path, bool locked = false) {
  const auto reference = by_library<T>(path);
  const auto file = File::open(path);
  EXPECT_TRUE(same_bits(file.read<T>("x"), reference)) << path;
  if (locked) return;
  const Dims boxes[][2] = {{{0, 0, 0}, {7, 10, 6}}, {{0, 0, 0}, {3, 4, 6}}, {{1, 2, 3}, {5, 7, 2}},
                           {{3, 4, 0}, {3, 4, 6}},  {{6, 9, 5}, {1, 1, 1}}, {{2, 3, 0}, {2, 2, 6}},
                           {{4, 0, 1}, {1, 10, 1}}, {{0, 5, 0}, {7, 2, 6}}};
  for (const auto& [offset, count] : boxes) {
    const auto box = read_without_lock<T>(file, offset, count);
    std::vector<T> expected;
    for (std::int64_t i = 0; i < count[0]; ++i)
      for (std::int64_t j = 0; j < count[1]; ++j)
        for (std::int64_t k = 0; k < count[2]; ++k)
          expected.push_back(
              reference[static_cast<std::size_t>(((offset[0] + i) * 10 + offset[1] + j) * 6 + offset[2] + k)]);
    EXPECT_TRUE(same_bits(box, expected)) << path << " " << hdf5::to_string(count) << " at " << hdf5::to_string(offset);
  }
}

TEST(Hdf5Chunks, EveryOrderOfFiltersReadsAsByTheLibraryAndWithoutItsLock) {
  const TemporaryFolder folder;
  const auto values = random_values<std::int16_t>(elements);
  for (const char* filters : {"", "d", "s", "f", "sd", "ds", "sdf", "fsd", "dsf", "fd", "sf", "fds"}) {
    for (const bool newest : {false, true}) {
      const auto path = folder / ("filters" + std::string(filters) + (newest ? "n.h5" : ".h5"));
      write_chunks(path, H5T_STD_I16LE, values, {.filters = letters(filters), .newest = newest});
      EXPECT_EQ(by_library<std::int16_t>(path), values);
      expect_equal_to_library<std::int16_t>(path);
    }
  }
}

TEST(Hdf5Chunks, ChunksThatWereNeverWrittenHaveTheFillValue) {
  const TemporaryFolder folder;
  const auto values = random_values<float>(elements);
  for (const char* filters : {"", "sd"}) {
    for (const bool unlimited : {false, true}) {
      const Written w{.filters = letters(filters), .newest = unlimited, .unlimited = unlimited, .rows = 2};
      const auto path = folder / ("fill" + std::string(filters) + (unlimited ? "u.h5" : ".h5"));
      write_chunks(path, H5T_IEEE_F32LE, values, w);
      expect_equal_to_library<float>(path);
      EXPECT_EQ(File::open(path).read<float>("x").back(), 42.0F);
    }
  }
}

TEST(Hdf5Chunks, PartialChunksMayBeUnfiltered) {
  const TemporaryFolder folder;
  write_chunks(folder / "p.h5", H5T_STD_I32LE, random_values<std::int32_t>(elements),
               {.filters = letters("sdf"), .partial_unfiltered = true, .newest = true});
  expect_equal_to_library<std::int32_t>(folder / "p.h5");
}

/// Of every type and byte order, to the type itself, to float and to double.
TEST(Hdf5Chunks, ConvertsAsTheLibrary) {
  const TemporaryFolder folder;
  const auto check = [&]<class T>(T low, T high, hid_t little, hid_t big) {
    auto values = random_values<T>(elements);
    values[0] = low;
    values[5] = high;
    for (const hid_t stored : {little, big}) {
      const auto path = folder / "types.h5";
      write_chunks(path, stored, values, {.filters = letters("sd"), .rows = 4});
      expect_equal_to_library<T>(path);
      expect_equal_to_library<float>(path, std::is_same_v<T, double> && stored == big);
      expect_equal_to_library<double>(path);
    }
  };
  check.operator()<std::int8_t>(-128, 127, H5T_STD_I8LE, H5T_STD_I8BE);
  check.operator()<std::uint8_t>(0, 255, H5T_STD_U8LE, H5T_STD_U8BE);
  check.operator()<std::int16_t>(-32768, 32767, H5T_STD_I16LE, H5T_STD_I16BE);
  check.operator()<std::uint16_t>(0, 65535, H5T_STD_U16LE, H5T_STD_U16BE);
  check.operator()<std::int32_t>(INT32_MIN, INT32_MAX, H5T_STD_I32LE, H5T_STD_I32BE);
  check.operator()<std::uint32_t>(0, UINT32_MAX, H5T_STD_U32LE, H5T_STD_U32BE);
  check.operator()<std::int64_t>(INT64_MIN, INT64_MAX - 1, H5T_STD_I64LE, H5T_STD_I64BE);
  check.operator()<std::uint64_t>(0, UINT64_MAX - 1, H5T_STD_U64LE, H5T_STD_U64BE);
  check.operator()<float>(-1e30F, std::numeric_limits<float>::infinity(), H5T_IEEE_F32LE, H5T_IEEE_F32BE);
  // Just beyond the range of float, where rounding would bring it back.
  check.operator()<double>(-1e300, std::numeric_limits<float>::max() * (1 + 1e-9), H5T_IEEE_F64LE, H5T_IEEE_F64BE);
}

TEST(Hdf5Chunks, OtherConversionsAndFiltersAreTheLibrarys) {
  const TemporaryFolder folder;
  write_chunks(folder / "a.h5", H5T_STD_I16LE, random_values<std::int16_t>(elements), {.filters = letters("sd")});
  EXPECT_EQ(File::open(folder / "a.h5").read<std::int32_t>("x"), by_library<std::int32_t>(folder / "a.h5"));
  write_chunks(folder / "b.h5", H5T_STD_I16LE, random_values<std::int16_t>(elements), {.filters = letters("dd")});
  EXPECT_EQ(File::open(folder / "b.h5").read<std::int16_t>("x"), by_library<std::int16_t>(folder / "b.h5"));
}

TEST(Hdf5Chunks, InfoTellsChunksAndFilters) {
  const TemporaryFolder folder;
  const auto values = random_values<float>(elements);
  write_chunks(folder / "a.h5", H5T_IEEE_F32LE, values, {.filters = letters("d")});
  write_chunks(folder / "b.h5", H5T_IEEE_F32LE, values, {});
  const auto a = File::open(folder / "a.h5").info("x"), b = File::open(folder / "b.h5").info("x");
  EXPECT_EQ(a.chunk, (Dims{3, 4, 6}));
  EXPECT_TRUE(a.filtered);
  EXPECT_EQ(b.chunk, (Dims{3, 4, 6}));
  EXPECT_FALSE(b.filtered);
}

/// A file with one data set of one chunk, which holds these bytes.
void write_raw_chunk(const std::string& path, const std::vector<hsize_t>& whole, const std::string& filters,
                     std::uint32_t skipped, const std::string& bytes) {
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const Handle space(H5Screate_simple(static_cast<int>(whole.size()), whole.data(), nullptr), H5Sclose);
  const Handle creation = creation_of({.filters = letters(filters)});
  H5Pset_chunk(creation, static_cast<int>(whole.size()), whole.data());
  const Handle set(H5Dcreate2(file, "x", H5T_STD_I16LE, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  const std::vector<hsize_t> zero(whole.size());
  ASSERT_GE(H5Dwrite_chunk(set, H5P_DEFAULT, skipped, zero.data(), bytes.size(), bytes.data()), 0);
}

std::string deflated(const std::string& bytes) {
  std::string out(compressBound(bytes.size()), '\0');
  uLongf size = out.size();
  EXPECT_EQ(
      compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
      Z_OK);
  out.resize(size);
  return out;
}

TEST(Hdf5Chunks, AFilterThatAChunkSkipsIsNotUndone) {
  const TemporaryFolder folder;
  const auto values = random_values<std::int16_t>(100);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 200);
  write_raw_chunk(folder / "a.h5", {100}, "sd", 1, deflated(bytes));
  write_raw_chunk(folder / "b.h5", {100}, "sd", 3, bytes);
  for (const char* name : {"a.h5", "b.h5"})
    EXPECT_EQ(File::open(folder / name).read<std::int16_t>("x"), values) << name;
}

TEST(Hdf5Chunks, RefusesChunksOfWrongSizes) {
  const TemporaryFolder folder;
  const auto message = [&](const std::vector<hsize_t>& whole, const std::string& filters, std::uint32_t skipped,
                           const std::string& bytes) {
    write_raw_chunk(folder / "a.h5", whole, filters, skipped, bytes);
    const auto text = message_of<InputError>([&] {
      std::int16_t first[4];
      const auto file = File::open(folder / "a.h5");
      Dims count(whole.size(), 1);
      file.read_box("x", Dims(whole.size(), 0), count, first);
    });
    EXPECT_NE(text.find("a.h5: 'x': the chunk at (0"), text.npos) << text;
    EXPECT_NE(text.find(" of the file"), text.npos) << text;
    return text;
  };
  EXPECT_NE(message({100}, "d", 0, deflated(std::string(198, 'a'))).find("the data end after 198 bytes"),
            std::string::npos);
  EXPECT_NE(message({100}, "d", 0, deflated(std::string(202, 'a'))).find("more than was expected"), std::string::npos);
  EXPECT_NE(message({100}, "d", 1, std::string(198, 'a')).find("there are 198 bytes. Expected 200"), std::string::npos);
  EXPECT_NE(message({100}, "f", 0, std::string(3, 'a')).find("checksum is missing"), std::string::npos);
  EXPECT_NE(message({100}, "f", 0, std::string(204, 'a')).find("Expected"), std::string::npos);
  const auto whole = deflated(std::string(200, 'a'));
  EXPECT_NE(message({100}, "d", 0, whole.substr(0, whole.size() / 2)).find("cut off"), std::string::npos);
  // 2 GiB in a few bytes: refused before memory is taken.
  EXPECT_NE(message({1 << 15, 1 << 15}, "d", 0, whole).find("bytes cannot be decompressed to 2147483648"),
            std::string::npos);
}

TEST(Hdf5Chunks, RefusesDamagedBytes) {
  const TemporaryFolder folder;
  const auto values = random_values<std::int16_t>(elements);
  for (const char* filters : {"sd", "sf"}) {
    const auto path = folder / "a.h5";
    write_chunks(path, H5T_STD_I16LE, values, {.filters = letters(filters)});
    const auto bytes = testing::bytes_of(path);
    int refused = 0;
    for (std::size_t at = bytes.size() / 2; at < bytes.size(); at += 37) {  // chunks, for the most part
      auto damaged = bytes;
      damaged[at] ^= 0x10;
      testing::write_file(path, damaged);
      try {
        EXPECT_EQ(File::open(path).read<std::int16_t>("x"), values) << at;
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find("a.h5"), std::string::npos) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(refused, 5) << filters;
  }
}

TEST(Hdf5Chunks, RefusesAddressesBeyondTheFile) {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  const std::string content = "elements of the only chunk, unfiltered: 50 letters";
  ASSERT_EQ(content.size(), 50U);
  write_raw_chunk(path, {25}, "", 0, content);
  auto bytes = testing::bytes_of(path);
  const std::uint64_t address = bytes.find(content);
  ASSERT_NE(address, bytes.npos);
  const auto at = bytes.find(std::string(reinterpret_cast<const char*>(&address), sizeof address));
  ASSERT_NE(at, bytes.npos);
  for (const std::uint64_t wrong : {std::uint64_t{bytes.size()} - 49, std::uint64_t{1} << 40, std::uint64_t{1} << 62}) {
    std::memcpy(&bytes[at], &wrong, sizeof wrong);
    testing::write_file(path, bytes);
    const auto text = message_of<InputError>([&] { File::open(path).read<std::int16_t>("x"); });
    EXPECT_NE(text.find("a.h5: 'x'"), text.npos) << text;
    EXPECT_NE(text.find(std::to_string(wrong)), text.npos) << text;
  }
}

TEST(Hdf5Chunks, ManyThreadsRead) {
  const TemporaryFolder folder;
  const auto values = random_values<std::int16_t>(elements);
  write_chunks(folder / "a.h5", H5T_STD_I16BE, values, {.filters = letters("sdf")});
  const auto file = File::open(folder / "a.h5");
  std::vector<std::future<bool>> threads;
  for (int t = 0; t < 4; ++t)
    threads.push_back(std::async(std::launch::async, [&] {
      bool equal = true;
      for (int i = 0; i < 100; ++i) equal = equal && file.read<std::int16_t>("x") == values;
      return equal;
    }));
  for (auto& t : threads) EXPECT_TRUE(t.get());
}

}  // namespace
}  // namespace keelson
