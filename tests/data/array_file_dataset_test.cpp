#include "engine/data/arrays/array_file_dataset.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {
namespace {

struct ArraySample {
  std::vector<float> x, y;
};

std::size_t elements_of(const Field& field, const std::optional<Rows>& rows = {}) {
  return static_cast<std::size_t>((rows ? field.with_rows(*rows) : field).shape.elements());
}

ArraySample sample_of(const Dataset& data, std::int64_t i, const FieldRows& rows = {}) {
  const auto& fields = data.fields();
  const auto rows_of = [&](std::size_t f) { return rows.empty() ? std::nullopt : rows[f]; };
  ArraySample s{std::vector<float>(elements_of(fields[0], rows_of(0)), -9), {}};
  if (fields.size() > 1) s.y.assign(elements_of(fields[1], rows_of(1)), -9);
  std::vector<std::int32_t> classes(s.y.size(), -9);
  const bool has_classes = fields.back().dtype == DType::s32;
  void* const dst[] = {s.x.data(), has_classes ? static_cast<void*>(classes.data()) : s.y.data()};
  data.read_sample({.id = {.index = i}, .rows = rows}, dst);
  if (has_classes) s.y.assign(classes.begin(), classes.end());
  return s;
}

/// read_sample() has the rows of read(), and zeros beyond the edges.
void expect_rows(const Dataset& data, std::int64_t i) {
  const auto whole = sample_of(data, i);
  for (std::size_t f = 0; f < data.fields().size(); ++f) {
    const Field& field = data.fields()[f];
    if (field.shape.rank() < 2) continue;
    const std::int64_t extent = field.shape[field.row_dim()], row = field.shape.elements() / extent;
    for (const Rows wanted : {Rows{0, 1}, Rows{-1, 2}, Rows{1, extent + 2}, Rows{-3, -1}}) {
      FieldRows rows(data.fields().size());
      rows[f] = wanted;
      const auto part = sample_of(data, i, rows);
      const auto& values = f == 0 ? part.x : part.y;
      const auto& all = f == 0 ? whole.x : whole.y;
      for (std::int64_t k = 0; k < wanted.size() * row; ++k) {
        const std::int64_t r = wanted.begin + k / row;
        const float expected = r < 0 || r >= extent ? 0 : all[static_cast<std::size_t>(r * row + k % row)];
        ASSERT_EQ(values[static_cast<std::size_t>(k)], expected) << data.describe() << ", field " << f << ", " << k;
      }
    }
  }
}

template <class T>
std::vector<T> numbers(std::int64_t n, T first = 0) {
  std::vector<T> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), first);
  return v;
}

class ArrayFileData : public ::testing::Test {
 protected:
  std::string refusal(const std::string& path, const ArrayFileOptions& options = {}) const {
    return message_of<InputError>([&] {
      const ArrayFileDataset data(path, options);
      for (std::int64_t i = 0; i < data.size(); ++i) sample_of(data, i);
    });
  }
  void write_npy(const std::string& name, const std::string& shape, const std::vector<float>& values) const {
    write_file(folder_ / name, npy_of("<f4", shape, bytes_of_numbers(values)));
  }

  TemporaryFolder folder_;
};

#define EXPECT_IN(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// Further inputs of a network come from arrays of the same files.
TEST_F(ArrayFileData, ReadsSeveralInputs) {
  auto f = hdf5::File::create(folder_ / "views.h5");
  f.write("front", numbers<float>(2 * 24).data(), {2, 2, 4, 3});
  f.write("side", numbers<float>(2 * 8, 500).data(), {2, 2, 2, 2});
  f.write("short", numbers<float>(8).data(), {1, 2, 2, 2});
  f.write("kind", numbers<std::int32_t>(2).data(), {2});
  f.close();
  ArrayFileOptions o{
      .x = "front", .inputs = {{"u", "side"}}, .y = "kind", .layout = ArrayLayout::channels_first, .classes = true};
  const ArrayFileDataset data(folder_.path(), o);
  ASSERT_EQ(data.fields().size(), 3u);
  EXPECT_EQ(data.fields()[1].name, "u");
  EXPECT_EQ(to_string(data.fields()[1].shape), "2x2x2");
  EXPECT_EQ(data.fields()[2].name, "y");
  EXPECT_EQ(data.describe(), "2 samples of 2x4x3 + 2x2x2 with classes in 1 file under " + folder_.path());
  std::vector<float> x(24), u(8);
  std::int32_t y = -1;
  void* const dst[] = {x.data(), u.data(), &y};
  data.read(1, dst);
  EXPECT_EQ(x[1], 24 + 12) << "the second channel of the first point";
  EXPECT_EQ(u, (std::vector<float>{508, 512, 509, 513, 510, 514, 511, 515}));
  EXPECT_EQ(y, 1);
  const std::uint64_t digest = data.digest();
  o.inputs = {{"v", "side"}};
  EXPECT_NE(ArrayFileDataset(folder_.path(), o).digest(), digest);
  o.inputs = {{"u", "short"}};
  EXPECT_IN(refusal(folder_.path(), o), "'front' has 2 samples, and 'short' has 1. Expected the same number");
  o.inputs = {{"u", "none"}};
  EXPECT_IN(refusal(folder_.path(), o), "none");
  o.inputs = {{"y", "side"}};
  EXPECT_IN(refusal(folder_.path(), o), "Expected another name than x and y");
  o.inputs = {{"u", "side"}};
  o.standardise = true;
  EXPECT_IN(refusal(folder_.path(), o), "can be standardised only if it is the network's only input");
}

TEST_F(ArrayFileData, ReadsManySamplesOfAFile) {
  for (const int n : {3, 1}) {
    auto f = hdf5::File::create(folder_ / fmt::format("{}.h5", n == 3 ? "a" : "b"));
    f.write("images", numbers<float>(n * 24, 1000.0f * static_cast<float>(n)).data(), {n, 3, 4, 2});
    f.write("label", numbers<std::int64_t>(n, n).data(), {n});
    f.close();
  }
  const ArrayFileDataset data(folder_.path(), {.x = "images", .y = "label", .classes = true});
  EXPECT_EQ(data.size(), 4);
  EXPECT_EQ(to_string(data.fields()[0].shape), "2x3x4");
  EXPECT_EQ(data.fields()[1].shape.rank(), 0);
  EXPECT_EQ(data.fields()[1].dtype, DType::s32);
  EXPECT_EQ(data.describe(), "4 samples of 2x3x4 with classes in 2 files under " + folder_.path());
  EXPECT_EQ(sample_of(data, 2).x, numbers<float>(24, 3048));
  EXPECT_EQ(sample_of(data, 2).y, std::vector<float>{5});
  EXPECT_EQ(sample_of(data, 3).x, numbers<float>(24, 1000));
  for (std::int64_t i = 0; i < 4; ++i) expect_rows(data, i);
  const ArrayFileDataset same(folder_.path(), {.x = "images", .y = "label", .classes = true}),
      other(folder_.path(), {.x = "images", .y = "label"});
  EXPECT_EQ(data.digest(), same.digest());
  EXPECT_NE(data.digest(), other.digest());
  EXPECT_EQ(ArrayFileDataset(folder_ / "a.h5", {.x = "images", .y = ""}).fields().size(), 1u);
}

TEST_F(ArrayFileData, PutsChannelsLast) {
  write_npy("x.npy", "(2, 2, 3, 4)", numbers<float>(48));
  write_npy("y.npy", "(2, 3, 4)", numbers<float>(24));
  ArrayFileOptions o{.x = "x.npy", .y = "y.npy", .layout = ArrayLayout::channels_first};
  const ArrayFileDataset first(folder_.path(), o);
  EXPECT_EQ(to_string(first.fields()[0].shape), "2x3x4");
  EXPECT_EQ(to_string(first.fields()[1].shape), "3x4");
  const auto s = sample_of(first, 1);
  for (int c = 0; c < 2; ++c)
    for (int p = 0; p < 12; ++p)
      EXPECT_EQ(s.x[static_cast<std::size_t>(p * 2 + c)], static_cast<float>(24 + c * 12 + p));
  EXPECT_EQ(s.y, numbers<float>(12, 12));
  expect_rows(first, 1);

  o.layout = ArrayLayout::none;
  const ArrayFileDataset none(folder_.path(), o);
  EXPECT_EQ(to_string(none.fields()[0].shape), "1x2x3x4");
  EXPECT_EQ(to_string(none.fields()[1].shape), "1x3x4");
  EXPECT_EQ(sample_of(none, 1).x, numbers<float>(24, 24));
  expect_rows(none, 0);

  // Classes have no channels, whatever the layout: the field is the array.
  o.classes = true;
  const ArrayFileDataset classes(folder_.path(), o);
  EXPECT_EQ(to_string(classes.fields()[1].shape), "3x4");
  EXPECT_EQ(sample_of(classes, 1).y, numbers<float>(12, 12));
  std::swap(o.x, o.y);
  const ArrayFileDataset volume(folder_.path(), o);
  EXPECT_EQ(to_string(volume.fields()[1].shape), "2x3x4");
  EXPECT_EQ(sample_of(volume, 0).y, sample_of(first, 0).x);  // (2, 3, 4) as rank 3 is written: (3, 4, 2)
  expect_rows(volume, 1);
}

TEST_F(ArrayFileData, PairsFilesOfNumPy) {
  for (const char* i : {"0", "1", "2"}) {
    write_npy(fmt::format("image-{}.npy", i), "(2, 2, 3)", numbers<float>(12, static_cast<float>(i[0])));
    write_npy(fmt::format("mask-{}.npy", i), "(2, 2)", {0, 1, 2, static_cast<float>(i[0] - '0')});
  }
  const ArrayFileOptions o{.x = "image-*.npy", .y = "mask-*.npy", .one_per_file = true, .classes = true};
  const ArrayFileDataset data(folder_.path(), o);
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(sample_of(data, 2).x, numbers<float>(12, '2'));
  EXPECT_EQ(sample_of(data, 2).y, (std::vector<float>{0, 1, 2, 2}));
  expect_rows(data, 1);
  std::filesystem::remove(folder_ / "mask-2.npy");
  EXPECT_IN(refusal(folder_.path(), o), "3 files of x and 2 of y match");
  EXPECT_IN(refusal(folder_.path()), "name the folder, and x and y by their files: 'x.npy'");
  EXPECT_IN(refusal(folder_.path(), {.x = "image-0.npy", .y = "y"}), "Expected arrays in the same files");
}

TEST_F(ArrayFileData, ReadsADimensionOfNetCdf) {
  const std::vector<CdfDimension> dimensions{{"time", 0}, {"lat", 2}, {"lon", 3}, {"case", 4}};
  const auto values = [](std::int64_t n) { return std::vector<double>(numbers<double>(n)); };
  write_file(folder_ / "a.nc", netcdf_of(2, dimensions,
                                         {{"t", {0, 1, 2}, CdfType::f64, values(12)},
                                          {"rain", {0}, CdfType::i16, {5, 6}},
                                          {"grid", {1, 2, 3}, CdfType::i32, values(24)},
                                          {"group", {3}, CdfType::i8, {3, 2, 1, 0}}},
                                         2));
  const ArrayFileDataset times(folder_.path(), {.x = "t", .y = "rain"});
  EXPECT_EQ(times.size(), 2);
  EXPECT_EQ(to_string(times.fields()[0].shape), "2x3");
  EXPECT_EQ(sample_of(times, 1).x, numbers<float>(6, 6));
  EXPECT_EQ(sample_of(times, 1).y, std::vector<float>{6});
  const ArrayFileDataset cases(folder_.path(),
                               {.x = "grid", .y = "group", .sample_dimension = "case", .layout = ArrayLayout::none});
  EXPECT_EQ(cases.size(), 4);
  EXPECT_EQ(to_string(cases.fields()[0].shape), "1x2x3");
  EXPECT_EQ(sample_of(cases, 3).x, (std::vector<float>{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(sample_of(cases, 3).y, std::vector<float>{0});
  expect_rows(cases, 2);
  EXPECT_IN(refusal(folder_.path(), {.x = "t", .y = "rain", .sample_dimension = "step"}),
            "'t' has no dimension 'step'. Its dimensions are time, lat, lon");
}

TEST_F(ArrayFileData, RefusesWhatIsMissing) {
  const CdfAttribute fill{"_FillValue", CdfType::f32, {-1}};
  write_file(folder_ / "a.nc", netcdf_of(1, {{"n", 2}, {"f", 3}},
                                         {{"x", {0, 1}, CdfType::f32, {1, 2, 3, 4, -1, 6}, {fill}},
                                          {"y", {0}, CdfType::f32, {1, 2}},
                                          {"z", {0}, CdfType::f32, {-1, 2}, {fill}}}));
  EXPECT_EQ(refusal(folder_.path()), folder_ /
                                         "a.nc: 'x' holds no value (NaN or missing) at (1, 1). Expected finite "
                                         "numbers; give a number that replaces missing ones, or remake the file");
  EXPECT_EQ(sample_of(ArrayFileDataset(folder_.path(), {.missing = 7.0f}), 1).x, (std::vector<float>{4, 7, 6}));
  EXPECT_IN(refusal(folder_.path(), {.y = "z", .missing = 7.0f}), "'z' holds no value (NaN or missing) at (0)");
  EXPECT_IN(refusal(folder_.path(), {.y = "z", .classes = true, .missing = 7.0f}), "Expected whole numbers (int32)");
}

TEST_F(ArrayFileData, RefusesFilesThatDoNotFit) {
  const auto write = [&](const std::string& name, const hdf5::Dims& x, std::int64_t y) {
    auto f = hdf5::File::create(folder_ / name);
    f.write("x", numbers<float>(x[0] * x[1]).data(), x);
    f.write("y", numbers<float>(y).data(), {y});
    f.close();
  };
  write("a.h5", {2, 3}, 2);
  EXPECT_IN(refusal(folder_.path(), {.x = "data"}), "has no array 'data'. The file holds 'x', 'y'");
  EXPECT_IN(refusal(folder_.path(), {.sample_dimension = "time"}), "have no names: only those of NetCDF files have");
  write("b.h5", {2, 4}, 2);
  EXPECT_IN(refusal(folder_.path()), "the samples of 'x' have the shape (4). Expected (3), as in " + folder_ / "a.h5");
  write("b.h5", {2, 3}, 3);
  EXPECT_IN(refusal(folder_.path()), "'x' has 2 samples, and 'y' has 3. Expected the same number");
  write("b.h5", {1, 3}, 1);
  const ArrayFileDataset data(folder_.path(), {});
  EXPECT_EQ(data.size(), 3);
  write("b.h5", {2, 3}, 2);
  EXPECT_IN(message_of<InputError>([&] { sample_of(data, 2); }),
            "another number of samples than when the data were opened");
  write_npy("c.npy", "(2, 3)", numbers<float>(6));
  EXPECT_IN(refusal(folder_.path()), "holds 2 HDF5 files and 1 NumPy files. Expected one form");
}

TEST_F(ArrayFileData, StandardisesChannels) {
  // Channel 0 counts from 1000, channel 1 is constant.
  std::vector<float> x;
  for (int i = 0; i < 5 * 6; ++i) x.insert(x.end(), {1000.0f + static_cast<float>(i), 0.1f});
  for (const char* name : {"a.h5", "b.h5"}) {
    auto f = hdf5::File::create(folder_ / name);
    f.write("x", x.data(), {5, 2, 3, 2});
    f.close();
  }
  const ArrayFileOptions options{.y = "", .standardise = true};
  const ArrayFileDataset data(folder_.path(), options);
  EXPECT_EQ(data.means(), (std::vector<double>{1014.5, static_cast<double>(0.1f)}));
  EXPECT_NEAR(data.deviations()[0], std::sqrt((30.0 * 30 - 1) / 12), 1e-12);
  EXPECT_EQ(data.deviations()[1], 1);
  const auto sample = sample_of(data, 6).x;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sample[2 * i], static_cast<float>((1006.0 + static_cast<double>(i) - 1014.5) / data.deviations()[0]));
    EXPECT_EQ(sample[2 * i + 1], 0);
  }
  for (std::int64_t i = 0; i < data.size(); ++i) expect_rows(data, i);

  const ArrayFileDataset part(folder_ / "a.h5", data);
  EXPECT_EQ(part.means(), data.means());
  EXPECT_EQ(sample_of(part, 1).x, sample);
  const ArrayFileDataset given(folder_.path(), {.y = "", .means = data.means(), .deviations = data.deviations()});
  EXPECT_EQ(sample_of(given, 6).x, sample);
  EXPECT_EQ(given.digest(), data.digest());
  EXPECT_NE(ArrayFileDataset(folder_.path(), {.y = ""}).digest(), data.digest());
  EXPECT_TRUE(ArrayFileDataset(folder_.path(), {.y = ""}).means().empty());

  EXPECT_IN(refusal(folder_.path(), {.y = "", .means = {1}, .deviations = {1, 2}}),
            "1 mean and 2 standard deviations were given. Expected one of each for each of 2 channels");
  EXPECT_IN(refusal(folder_.path(), {.y = "", .means = {1, 2}, .deviations = {1, 0}}), "deviations above 0");
}

/// Other layouts: the channels first, none, and samples of one dimension.
TEST_F(ArrayFileData, StandardisesEveryLayout) {
  write_npy("x.npy", "(2, 3, 2, 2)", numbers<float>(24));
  const ArrayFileDataset first(folder_.path(),
                               {.x = "x.npy", .y = "", .layout = ArrayLayout::channels_first, .standardise = true});
  EXPECT_EQ(first.means(), (std::vector<double>{7.5, 11.5, 15.5}));
  EXPECT_EQ(sample_of(first, 0).x[1], static_cast<float>((4 - 11.5) / first.deviations()[1]));
  expect_rows(first, 1);
  write_npy("plane.npy", "(2, 3, 2)", numbers<float>(12));
  const ArrayFileDataset none(folder_.path(),
                              {.x = "plane.npy", .y = "", .layout = ArrayLayout::none, .standardise = true});
  EXPECT_EQ(none.means(), std::vector<double>{5.5});
  expect_rows(none, 1);
  write_npy("row.npy", "(2, 3)", {1, 2, -5, 3, 2, 5});
  const ArrayFileDataset row(folder_.path(), {.x = "row.npy", .y = "", .standardise = true});
  EXPECT_EQ(row.means(), (std::vector<double>{2, 2, 0}));
  EXPECT_EQ(row.deviations(), (std::vector<double>{1, 1, 5}));
  EXPECT_EQ(sample_of(row, 1).x, (std::vector<float>{1, 0, 1}));
  write_npy("gap.npy", "(2, 2)", {1, std::nanf(""), 3, 5});
  const ArrayFileDataset gap(folder_.path(), {.x = "gap.npy", .y = "", .missing = 1.0f, .standardise = true});
  EXPECT_EQ(gap.means(), (std::vector<double>{2, 3}));
  EXPECT_EQ(sample_of(gap, 0).x, (std::vector<float>{-1, -1}));
}

/// x in NetCDF files, y in files of another folder and form.
TEST_F(ArrayFileData, ReadsTargetsFromOtherFiles) {
  std::filesystem::create_directory(folder_ / "masks");
  for (int i = 0; i < 2; ++i) {
    const double v = 10 * i;
    write_file(folder_ / fmt::format("x{}.nc", i),
               netcdf_of(1, {{"time", 2}, {"lat", 1}, {"lon", 2}},
                         {{"T", {0, 1, 2}, CdfType::f32, {v, v + 1, v + 2, v + 3}}}));
    auto f = hdf5::File::create(folder_ / fmt::format("masks/{}.h5", i));
    f.write("mask", numbers<std::int32_t>(4, i).data(), {2, 1, 2});
    f.close();
  }
  const ArrayFileOptions options{
      .x = "T", .y = "mask", .y_path = folder_ / "masks/?.h5", .layout = ArrayLayout::none, .classes = true};
  const ArrayFileDataset data(folder_ / "*.nc", options);
  EXPECT_EQ(data.size(), 4);
  EXPECT_EQ(sample_of(data, 2).x, (std::vector<float>{10, 11}));
  EXPECT_EQ(sample_of(data, 2).y, (std::vector<float>{1, 2}));
  EXPECT_EQ(sample_of(ArrayFileDataset(folder_ / "x1.nc", data, folder_ / "masks/1.h5"), 1).y,
            (std::vector<float>{3, 4}));
  EXPECT_IN(message_of<InputError>([&] { ArrayFileDataset(folder_ / "x1.nc", data); }),
            "the files of y were not named");
  write_npy("masks/y.npy", "(4)", {5, 6, 7, 8});
  EXPECT_IN(refusal(folder_ / "*.nc", {.x = "T", .y = "y.npy", .y_path = folder_ / "masks"}),
            "has 2 files of x, and " + (folder_ / "masks") + " has 1 of y");
  EXPECT_IN(refusal(folder_ / "x0.nc", {.x = "T", .y = "y.npy", .y_path = folder_ / "masks"}),
            "'T' has 2 samples, and 'y' has 4");
  EXPECT_IN(refusal(folder_ / "x0.nc", {.x = "T", .y = "", .y_path = "masks"}), "no array was named for y");
  EXPECT_IN(refusal(folder_ / "x0.nc", {.x = "T", .y = "y.npy"}), "or name the files of y (y_path)");
}

}  // namespace
}  // namespace keelson::testing
