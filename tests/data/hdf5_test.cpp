#include "engine/data/hdf5/hdf5.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson {
namespace {

using hdf5::Dims;
using hdf5::File;
using testing::message_of;
using testing::TemporaryFolder;

TEST(Hdf5, WritesAndReadsEveryType) {
  const TemporaryFolder folder;
  const auto check = [&]<class T>(T low, T high, const char* type_name) {
    const std::string path = folder / (std::string(type_name) + ".h5");
    const std::vector<T> data{low, T{0}, T{1}, T{2}, T{3}, high};
    auto out = File::create(path);
    out.write("group/deep/v", data.data(), {2, 3});
    out.close();
    const auto in = File::open(path);
    const auto info = in.info("group/deep/v");
    EXPECT_EQ(info.type_name, type_name);
    EXPECT_EQ(info.type, hdf5::type_of<T>());
    EXPECT_EQ(info.shape, (Dims{2, 3}));
    EXPECT_GT(info.raw_offset, 0);
    EXPECT_EQ(in.read<T>("group/deep/v"), data);
    T box[2];
    in.read_box("/group/deep/v", {0, 2}, {2, 1}, box);
    EXPECT_EQ(box[0], data[2]);
    EXPECT_EQ(box[1], data[5]);
  };
  check.operator()<float>(-1e30f, 1e30f, "float32");
  check.operator()<double>(-1e300, 1e300, "float64");
  check.operator()<std::int8_t>(-128, 127, "int8");
  check.operator()<std::uint8_t>(0, 255, "uint8");
  check.operator()<std::int16_t>(-32768, 32767, "int16");
  check.operator()<std::uint16_t>(0, 65535, "uint16");
  check.operator()<std::int32_t>(INT32_MIN, INT32_MAX, "int32");
  check.operator()<std::uint32_t>(0, UINT32_MAX, "uint32");
  check.operator()<std::int64_t>(INT64_MIN, INT64_MAX, "int64");
  check.operator()<std::uint64_t>(0, UINT64_MAX, "uint64");
}

TEST(Hdf5, WritesInBoxes) {
  const TemporaryFolder folder;
  auto out = File::create(folder / "a.h5");
  out.make_dataset<float>("v", {4, 5});
  const std::vector<float> ones(4, 1.0f);
  out.write_box("v", {1, 2}, {2, 2}, ones.data());
  EXPECT_THROW(out.write_box("v", {3, 2}, {2, 2}, ones.data()), Error);
  out.close(true);
  const auto v = File::open(folder / "a.h5").read<float>("v");
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 5; ++j)
      EXPECT_EQ(v[i * 5 + j], (i == 1 || i == 2) && (j == 2 || j == 3) ? 1.0f : 0.0f) << i << "," << j;
}

TEST(Hdf5, WritesCompressedChunks) {
  const TemporaryFolder folder;
  const std::vector<float> image(3 * 1000, 2.5f);
  for (const int level : {0, 1}) {
    const std::string path = folder / fmt::format("{}.h5", level);
    auto file = hdf5::File::create(path);
    file.make_dataset<float>("images", {3, 1000}, {1, 1000}, level);
    for (std::int64_t i = 0; i < 3; ++i) file.write_box("images", {i, 0}, {1, 1000}, image.data() + i * 1000);
    file.close();
    const auto again = hdf5::File::open(path);
    const auto info = again.info("images");
    EXPECT_EQ(info.chunk, (hdf5::Dims{1, 1000}));
    EXPECT_EQ(info.filtered, level > 0);
    EXPECT_EQ(again.read<float>("images"), image);
  }
  EXPECT_LT(std::filesystem::file_size(folder / "1.h5"), std::filesystem::file_size(folder / "0.h5") / 2);
}

TEST(Hdf5, ScalarsAndEmptyDatasets) {
  const TemporaryFolder folder;
  auto out = File::create(folder / "a.h5");
  const double pi = 3.5;
  out.write("scalar", &pi, {});
  out.write<float>("empty", nullptr, {0, 4});
  out.close();
  const auto in = File::open(folder / "a.h5");
  EXPECT_EQ(in.read<double>("scalar"), std::vector<double>{3.5});
  EXPECT_EQ(in.info("empty").elements(), 0);
  EXPECT_TRUE(in.read<float>("empty").empty());
  EXPECT_TRUE(in.has("scalar"));
  EXPECT_TRUE(in.has("/"));
  EXPECT_FALSE(in.has("scalar2"));
  EXPECT_FALSE(in.has("no/such/thing"));
}

TEST(Hdf5, Attributes) {
  const TemporaryFolder folder;
  auto out = File::create(folder / "a.h5");
  out.make_group("/run/state");
  out.set_attribute("/", "text", "Ω_m and σ_8");
  out.set_attribute("/run/state", "names", std::vector<std::string>{"Omega_m", "", "h"});
  out.set_attribute("/run/state", "step", std::int64_t{1} << 40);
  out.set_attribute("/run/state", "step", std::int64_t{1} << 41);
  out.set_attribute("/run/state", "rate", 0.25);
  out.set_attribute("/run/state", "done", true);
  out.set_attribute("/run/state", "means", std::vector<float>{1, 2, 3});
  out.set_attribute("/", "long", std::string(100000, 'x'));
  out.close();

  const auto in = File::open(folder / "a.h5");
  EXPECT_EQ(in.text_attribute("/", "text"), "Ω_m and σ_8");
  EXPECT_EQ(in.texts_attribute("/run/state", "names"), (std::vector<std::string>{"Omega_m", "", "h"}));
  EXPECT_EQ(in.attribute<std::int64_t>("run/state", "step"), std::int64_t{1} << 41);
  EXPECT_EQ(in.attribute<double>("run/state", "rate"), 0.25);
  EXPECT_EQ(in.attribute<int>("run/state", "done"), 1);
  EXPECT_EQ(in.numbers_attribute<double>("run/state", "means"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(in.text_attribute("/", "long").size(), 100000u);
  EXPECT_TRUE(in.has_attribute("/", "text"));
  EXPECT_FALSE(in.has_attribute("/", "no"));
  EXPECT_NE(message_of<InputError>([&] { in.attribute<double>("/", "no"); }).find("lacks the attribute 'no'"),
            std::string::npos);
  EXPECT_THROW(in.attribute<double>("/", "text"), InputError);
  EXPECT_THROW(in.attribute<double>("run/state", "means"), InputError);
  EXPECT_THROW(in.text_attribute("run/state", "rate"), InputError);
}

TEST(Hdf5, WritesListsOfTexts) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const std::vector<std::string> names{"Omega_m", "", "σ_8"};
  auto out = File::create(path);
  out.write("group/names", names);
  out.write("none", std::vector<std::string>{});
  EXPECT_THROW(out.write("none", names), Error);
  out.close();
  {
    const auto in = File::open(path);
    EXPECT_EQ(in.info("group/names").shape, Dims{3});
    EXPECT_EQ(in.info("group/names").type_name, "string");
    EXPECT_EQ(in.info("none").shape, Dims{0});
  }  // HDF5 does not open a file twice with different settings of locking

  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "group/names", H5P_DEFAULT), type = H5Dget_type(dataset);
  EXPECT_EQ(H5Tget_cset(type), H5T_CSET_UTF8);
  char* texts[3] = {};
  ASSERT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts), 0);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(texts[i], names[i]);
    H5free_memory(texts[i]);
  }
  H5Tclose(type), H5Dclose(dataset), H5Fclose(file);
}

TEST(Hdf5, ReadsFixedLengthTextOfOtherPrograms) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, 8);
  H5Tset_strpad(type, H5T_STR_SPACEPAD);
  const hid_t attribute = H5Acreate2(file, "unit", type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, "Mpc/h   ");
  H5Aclose(attribute), H5Sclose(space), H5Tclose(type), H5Fclose(file);
  EXPECT_EQ(File::open(path).text_attribute("/", "unit"), "Mpc/h");
}

TEST(Hdf5, SameDataSameBytes) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name) {
    auto out = File::create(folder / name);
    const float v[3] = {1, 2, 3};
    out.write("group/v", v, {3});
    out.set_attribute("/", "seed", 7);
    out.close();
    return testing::bytes_of(folder / name);
  };
  const auto first = write("a.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // time stamps count whole seconds
  EXPECT_EQ(first, write("b.h5"));
}

TEST(Hdf5, RefusesWhatItCannotOpen) {
  const TemporaryFolder folder;
  const auto reason = [](const std::string& path) { return message_of<InputError>([&] { File::open(path); }); };
  EXPECT_NE(reason(folder / "missing.h5").find("No such file"), std::string::npos);
  EXPECT_NE(reason(folder.path()).find("is a folder"), std::string::npos);
  std::ofstream(folder / "empty.h5") << "";
  EXPECT_NE(reason(folder / "empty.h5").find("empty (0 bytes)"), std::string::npos);
  std::ofstream(folder / "text.h5") << "just some text, longer than a signature";
  EXPECT_NE(reason(folder / "text.h5").find("not an HDF5 file"), std::string::npos);

  const std::string path = folder / "cut.h5";
  auto out = File::create(path);
  const std::vector<float> v(1000);
  out.write("v", v.data(), {1000});
  out.close();
  ASSERT_EQ(truncate(path.c_str(), 2000), 0);
  const auto text = reason(path);
  EXPECT_NE(text.find(path), std::string::npos);
  EXPECT_NE(text.find("truncated file"), std::string::npos) << text;
  EXPECT_NE(message_of<Error>([&] { File::create(folder / "no/such/folder.h5"); }).find("No such file"),
            std::string::npos);
}

TEST(Hdf5, NamesWhatAFileLacks) {
  const TemporaryFolder folder;
  auto out = File::create(folder / "a.h5");
  const float v[2] = {1, 2};
  out.write("velocity", v, {2});
  out.make_group("group");
  out.close();
  const auto in = File::open(folder / "a.h5");
  const auto text = message_of<InputError>([&] { in.read<float>("x"); });
  EXPECT_NE(text.find("has no dataset 'x'"), std::string::npos) << text;
  EXPECT_NE(text.find("'group', 'velocity'"), std::string::npos) << text;
  EXPECT_THROW(in.info("group"), InputError);
  float three[3];
  EXPECT_THROW(in.read("velocity", three, 3), InputError);
}

/// A file without the attribute would be read with defaults.
TEST(Hdf5, ADamagedAttributeIsNotAnAbsentOne) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const std::vector<double> values{0.27, 0.72, 0.864, 63.0};
  auto out = File::create(path);
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"})
    out.set_attribute("/", name, std::string("some text"));
  out.set_attribute("/", "ranges", values);
  out.close();
  auto bytes = testing::bytes_of(path);
  const auto at = bytes.find(std::string(reinterpret_cast<const char*>(values.data()), sizeof values[0] * 4));
  ASSERT_NE(at, bytes.npos);
  for (const std::size_t i : {std::size_t{0}, std::size_t{9}, std::size_t{31}}) {
    auto damaged = bytes;
    damaged[at + i] ^= 1;
    testing::write_file(path, damaged);
    try {
      const auto file = File::open(path);
      EXPECT_TRUE(file.has_attribute("/", "ranges")) << i;
      EXPECT_NE(file.numbers_attribute<double>("/", "ranges"), values) << i;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("x.h5"), std::string::npos) << error.what();
    }
  }
}

TEST(Hdf5, ForeignLayoutsHaveNoRawOffsetAndReadRight) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const std::vector<std::int16_t> data{1, -2, 300, 4};
  testing::write_foreign_int16(path, "big", testing::Storage::big_endian, {2, 2}, data);
  testing::write_foreign_int16(path, "compressed", testing::Storage::compressed, {2, 2}, data);
  testing::write_foreign_int16(path, "compact", testing::Storage::little_endian_compact, {2, 2}, data);
  const auto in = File::open(path);
  for (const char* name : {"big", "compressed", "compact"}) {
    EXPECT_EQ(in.info(name).raw_offset, -1) << name;
    EXPECT_EQ(in.read<std::int16_t>(name), data) << name;
    EXPECT_EQ(in.read<float>(name), (std::vector<float>{1, -2, 300, 4})) << name;
  }
  EXPECT_EQ(in.info("big").type_name, "big-endian int16");
}

TEST(Hdf5, ManyThreadsMayRead) {
  const TemporaryFolder folder;
  std::vector<int> v(4096);
  std::iota(v.begin(), v.end(), 0);
  auto out = File::create(folder / "a.h5");
  out.write("v", v.data(), {4096});
  out.close();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto in = File::open(folder / "a.h5");
        if (in.read<int>("v") != v) ++wrong;
        try {
          in.info("none");
          ++wrong;
        } catch (const InputError&) {
        }
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

/// The limit on a file's size stands in for a full disk: write() fails in the same way.
TEST(Hdf5, AFullDiskIsAnErrorOfWritingAndLeavesTheLibraryUsable) {
  const TemporaryFolder folder;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit limit{10000, old_limit.rlim_max};
  const auto fill = [&](std::int64_t elements) {
    auto out = File::create(folder / "full.h5");
    const std::vector<float> v(static_cast<std::size_t>(elements), 1.0f);
    out.write("v", v.data(), {elements});
    out.close();
  };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto while_writing = message_of<Error>([&] { fill(100000); });
  const rlimit tiny{600, old_limit.rlim_max};  // the data pass here but the metadata, written on close, do not
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const auto while_closing = message_of<Error>([&] { fill(20); });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(while_writing.find("File too large"), std::string::npos) << while_writing;
  EXPECT_NE(while_closing.find("File too large"), std::string::npos) << while_closing;
  EXPECT_NO_THROW(fill(100000));
  EXPECT_EQ(File::open(folder / "full.h5").read<float>("v").size(), 100000u);
}

}  // namespace
}  // namespace keelson
