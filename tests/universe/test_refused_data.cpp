#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

/// Data that must be refused before training begins, or where they are read, with a message that helps.
namespace keelson::cosmoflow {
namespace {

using hdf5::Dims;
using hdf5::File;
using testing::counts;
using testing::TemporaryFolder;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T = std::int16_t>
void write_good(const std::string& path, std::vector<float> y = {0.25f, -0.5f}, const Dims& shape = {6, 6, 6, 2}) {
  auto file = File::create(path);
  hdf5::DatasetInfo info;
  info.shape = shape;
  file.write("x", counts<T>(info.elements(), 3).data(), shape);
  file.write("y", y.data(), {static_cast<std::int64_t>(y.size())});
  file.close();
}

std::string refused(const std::string& path, const UniverseOptions& options = {}) {
  return testing::message_of<InputError>([&] { UniverseDataset(path, options); });
}

::testing::AssertionResult says(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts)
    if (text.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "\"" << text << "\" lacks \"" << part << "\"";
  return ::testing::AssertionSuccess();
}

TEST(RefusedData, MissingAndEmptyFolders) {
  const TemporaryFolder folder;
  std::ofstream(folder / "trains.txt") << "";
  EXPECT_TRUE(says(refused(folder / "train"), {"train: does not exist", "holds trains.txt"}));
  EXPECT_TRUE(says(refused(folder / "no/train/"), {"does not exist either"}));
  EXPECT_TRUE(says(refused(""), {"(empty path): does not exist"}));
  EXPECT_TRUE(says(refused(folder / "*.h5"), {"no file matches"}));
  EXPECT_TRUE(
      says(refused(folder.path()), {"no HDF5, TFRecord, NetCDF or NumPy files among 1 others", ".hdf5", ".tfrecord"}));
  std::filesystem::create_directory(folder / "empty");
  EXPECT_TRUE(says(refused(folder / "empty"), {"is an empty folder"}));
}

TEST(RefusedData, FoldersOfSeveralSplitsAndOtherFormats) {
  const TemporaryFolder folder;
  for (const char* split : {"train", "validation"}) {
    std::filesystem::create_directory(folder / split);
    write_good(folder / (std::string(split) + "/a.h5"));
  }
  EXPECT_TRUE(
      says(refused(folder.path()), {"several parts", "try " + folder / "train", " or " + folder / "validation"}));
  EXPECT_EQ(UniverseDataset(folder / "train", {}).size(), 1);

  std::filesystem::copy_file(folder / "train/a.h5", folder / "train/a.tfrecord");
  EXPECT_TRUE(says(refused(folder / "train"), {"1 HDF5 files and 1 TFRecord files", "Expected one form"}));
  EXPECT_TRUE(says(refused(folder / "train/a.tfrecord"), {"record 0 at byte 0", "Expected TFRecords"}));
}

TEST(RefusedData, FilesThatAreNotWhole) {
  const TemporaryFolder folder;
  write_good(folder / "a.h5");
  const auto whole = std::filesystem::file_size(folder / "a.h5");
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t{100}, std::uintmax_t{4}, std::uintmax_t{0}}) {
    std::filesystem::copy_file(folder / "a.h5", folder / "b.h5", std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(truncate((folder / "b.h5").c_str(), static_cast<off_t>(size)), 0);
    EXPECT_TRUE(says(refused(folder.path()), {folder / "b.h5"})) << size;
    EXPECT_TRUE(says(refused(folder / "b.h5"), {folder / "b.h5"})) << size;
  }
  std::ofstream(folder / "b.h5") << "not HDF5 at all, but long enough to have held a signature";
  EXPECT_TRUE(says(refused(folder.path()), {folder / "b.h5", "not an HDF5 file"}));
}

TEST(RefusedData, FilesThatChangeWhileInUse) {
  const TemporaryFolder folder;
  write_good(folder / "a.h5");
  const UniverseDataset data(folder.path(), {});
  std::vector<float> x(432), y(2);
  void* const dst[] = {x.data(), y.data()};
  data.read(0, dst);
  ASSERT_EQ(truncate((folder / "a.h5").c_str(), 1000), 0);
  EXPECT_TRUE(
      says(testing::message_of<InputError>([&] { data.read(0, dst); }), {folder / "a.h5", "ends at byte 1000"}));
  std::filesystem::remove(folder / "a.h5");
  EXPECT_TRUE(says(testing::message_of<InputError>([&] { data.read(0, dst); }), {folder / "a.h5", "No such file"}));
}

/// A file is compared with what was found at first when it is opened to be read.
TEST(RefusedData, FilesThatAreReplacedWhileInUse) {
  const TemporaryFolder folder;
  write_good(folder / "a.h5");
  write_good(folder / "b.h5", {1, 2});
  testing::write_foreign_int16(folder / "c.h5", "x", testing::Storage::compressed, {6, 6, 6, 2},
                               counts<std::int16_t>(432, 3));
  const auto add_targets = [&](float first) {
    std::filesystem::remove(folder / "c.h5");
    auto file = File::create(folder / "c.h5");
    const float y[2] = {first, 0};
    file.write("y", y, {2});
    file.close();
    testing::write_foreign_int16(folder / "c.h5", "x", testing::Storage::compressed, {6, 6, 6, 2},
                                 counts<std::int16_t>(432, 3));
  };
  add_targets(1);
  const UniverseDataset data(folder.path(), {});
  std::vector<float> x(432), y(2);
  void* const dst[] = {x.data(), y.data()};
  const auto refused_to_read = [&](int i) { return testing::message_of<InputError>([&] { data.read(i, dst); }); };
  write_good(folder / "b.h5", {1, 3});
  EXPECT_TRUE(says(refused_to_read(1), {folder / "b.h5", "other arrays, attributes or targets", "Expected the same"}));
  write_good(folder / "b.h5", {1, 3, 4});
  EXPECT_TRUE(says(refused_to_read(1), {folder / "b.h5"}));
  write_good(folder / "b.h5", {1, 2});
  data.read(1, dst);
  EXPECT_EQ(y, (std::vector<float>{1, 2}));
  add_targets(2);
  EXPECT_TRUE(says(refused_to_read(2), {folder / "c.h5", "other targets"}));
  add_targets(1);
  data.read(2, dst);
  EXPECT_EQ(y, (std::vector<float>{1, 0}));
}

/// Two good files around one made by `write`; the message must name that one.
std::string refused_between(const std::function<void(const std::string&)>& write) {
  const TemporaryFolder folder;
  write_good(folder / "a.h5");
  write(folder / "b.h5");
  write_good(folder / "c.h5");
  const std::string text = refused(folder.path());
  EXPECT_TRUE(says(text, {folder / "b.h5"}));
  EXPECT_EQ(refused(folder / "b.h5"), text) << "alone or among others";
  return text;
}

template <class Write>
std::function<void(const std::string&)> file_with(Write write) {
  return [write](const std::string& path) {
    auto file = File::create(path);
    write(file);
    file.close();
  };
}

TEST(RefusedData, MissingArrays) {
  const auto x = counts<std::int16_t>(432, 0);
  const float y[2] = {0, 0};
  EXPECT_TRUE(says(refused_between(file_with([&](File& f) { f.write("x", x.data(), {6, 6, 6, 2}); })),
                   {"no dataset 'y'", "holds 'x'"}));
  EXPECT_TRUE(says(refused_between(file_with([&](File& f) { f.write("y", y, {2}); })), {"no dataset 'x'"}));
  EXPECT_TRUE(says(refused_between(file_with([](File&) {})), {"no dataset 'x'", "nothing"}));
  EXPECT_TRUE(says(refused_between(file_with([&](File& f) { f.write("full", x.data(), {6, 6, 6, 2}); })),
                   {"no dataset 'unitPar'"}));
  EXPECT_TRUE(says(refused_between(file_with([&](File& f) {
                     f.make_group("x");
                     f.write("y", y, {2});
                   })),
                   {"'x' is not a dataset"}));
}

TEST(RefusedData, OtherShapesAndTypesThanTheFirstFile) {
  const TemporaryFolder folder;
  const auto refused_second = [&](const std::function<void(const std::string&)>& write) {
    write_good(folder / "a.h5");
    write(folder / "b.h5");
    return refused(folder.path());
  };
  using Path = const std::string&;
  EXPECT_TRUE(says(refused_second([](Path p) { write_good(p, {0, 0}, {6, 6, 6, 1}); }),
                   {folder / "b.h5", "(6, 6, 6, 1) int16", "Expected 'x' of (6, 6, 6, 2) int16", folder / "a.h5"}));
  EXPECT_TRUE(
      says(refused_second([](Path p) { write_good<float>(p); }), {"float32", "Expected 'x' of (6, 6, 6, 2) int16"}));
  EXPECT_TRUE(says(refused_second([](Path p) { write_good(p, {0, 0, 0}); }), {"'y' of 3 numbers", "'y' of 2 numbers"}));
  EXPECT_TRUE(says(refused_second([](Path p) { write_good(p, {0, 0}, {6, 6, 6}); }), {"(6, 6, 6) int16"}));
}

TEST(RefusedData, ShapesThatAreNoUniverse) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const auto refused_shapes = [&](const Dims& x, const Dims& y) {
    auto file = File::create(path);
    file.make_dataset<std::int16_t>("x", x);
    file.make_dataset<float>("y", y);
    file.close();
    return refused(path);
  };
  EXPECT_TRUE(says(refused_shapes({6, 6, 5, 2}, {2}), {"(6, 6, 5, 2)", "Expected a cube"}));
  EXPECT_TRUE(says(refused_shapes({6, 6}, {2}), {"(6, 6)", "Expected (D, H, W, channels)"}));
  EXPECT_TRUE(says(refused_shapes({6, 6, 6, 2}, {}), {"scalar"}));
  EXPECT_TRUE(says(refused_shapes({2, 6, 6, 6, 2}, {2}), {"Expected"}));
  EXPECT_TRUE(says(refused_shapes({2, 6, 6, 6, 2}, {3, 4}), {"has 2 samples but 'y' has 3"}));
  EXPECT_TRUE(says(refused_shapes({0, 6, 6, 6, 2}, {0, 4}), {"holds no samples"}));
  EXPECT_TRUE(says(refused_shapes({6, 6, 6, 2}, {0}), {"holds no samples"}));
}

TEST(RefusedData, TargetsThatAreNotFinite) {
  EXPECT_TRUE(says(refused_between([](const std::string& p) { write_good(p, {0, nan}); }), {"'y' holds nan at (1)"}));
  EXPECT_TRUE(
      says(refused_between([](const std::string& p) { write_good(p, {-infinity, 0}); }), {"'y' holds -inf at (0)"}));
  const TemporaryFolder folder;
  auto file = File::create(folder / "many.h5");
  file.write("x", counts<std::int16_t>(16, 0).data(), {2, 2, 2, 2, 1});
  const float y[4] = {0, 0, nan, 0};
  file.write("y", y, {2, 2});
  file.close();
  EXPECT_TRUE(says(refused(folder.path()), {"'y' holds nan at (1, 0)"}));
}

TEST(RefusedData, VoxelsThatAreNotFinite) {
  const TemporaryFolder folder;
  auto x = counts<float>(2 * 20 * 20 * 20 * 3, 1);
  x[(((20 + 17) * 20 + 3) * 20 + 9) * 3 + 2] = nan;
  auto file = File::create(folder / "a.h5");
  file.write("x", x.data(), {2, 20, 20, 20, 3});
  const float y[2] = {0, 0};
  file.write("y", y, {2, 1});
  file.close();
  std::vector<float> out(24000);
  float target = 0;
  void* const dst[] = {out.data(), &target};
  for (const auto normalisation : {Normalisation::none, Normalisation::log1p, Normalisation::mean}) {
    for (const int size : {20, 10}) {
      UniverseOptions options;
      options.normalisation = normalisation;
      options.size = size;
      const UniverseDataset data(folder.path(), options);
      const int cubes = size == 20 ? 1 : 8, bad = size == 20 ? 1 : 8 + 4;  // cube (1, 0, 0) of the second sample
      for (const int symmetry : {0, 29}) {
        EXPECT_NO_THROW(data.read_turned(cubes - 1, symmetry, dst));
        EXPECT_TRUE(says(testing::message_of<InputError>([&] { data.read_turned(bad, symmetry, dst); }),
                         {folder / "a.h5", "'x' holds nan at (1, 17, 3, 9, 2)"}));
      }
      options.channels = {0, 1};  // nobody looks at the channel that is broken
      EXPECT_NO_THROW(UniverseDataset(folder.path(), options).read_turned(bad, 5, dst));
    }
  }
}

TEST(RefusedData, CountsWithoutLogarithm) {
  const TemporaryFolder folder;
  auto x = counts<std::int16_t>(216, 1);
  x[(5 * 6 + 4) * 6 + 3] = -1;
  auto file = File::create(folder / "a.h5");
  file.write("x", x.data(), {6, 6, 6});
  const float y = 0;
  file.write("y", &y, {1});
  file.close();
  std::vector<float> out(216);
  float target = 0;
  void* const dst[] = {out.data(), &target};
  const UniverseDataset data(folder.path(), {});
  EXPECT_TRUE(
      says(testing::message_of<InputError>([&] { data.read(0, dst); }), {"'x' holds -1 at (5, 4, 3)", "log(x + 1)"}));
}

/// Among many files that look alike, which are checked by several threads and mostly without HDF5.
TEST(RefusedData, TheFirstOffenderOfManyIsNamed) {
  const TemporaryFolder folder;
  const auto name = [&](int i) { return folder / fmt::format("{:03}.h5", i); };
  for (int i = 0; i < 300; ++i) write_good(name(i), {float(i), 1});
  const UniverseDataset all(folder.path(), {});
  EXPECT_EQ(all.size(), 300);
  std::vector<float> x(432), y(2);
  void* const dst[] = {x.data(), y.data()};
  for (int i = 0; i < 300; ++i) {
    all.read(i, dst);
    ASSERT_EQ(y[0], float(i));
  }
  for (int repeat = 0; repeat < 5; ++repeat) {
    ASSERT_EQ(truncate(name(290).c_str(), 900), 0);
    EXPECT_TRUE(says(refused(folder.path()), {name(290)}));
    write_good(name(210), {0, 0}, {6, 6, 6, 4});
    EXPECT_TRUE(says(refused(folder.path()), {name(210), "(6, 6, 6, 4)"}));
    write_good(name(209), {0, nan});
    EXPECT_TRUE(says(refused(folder.path()), {name(209), "nan"}));
    for (int i : {209, 210, 290}) write_good(name(i), {float(i), 1});
  }
}

}  // namespace
}  // namespace keelson::cosmoflow
