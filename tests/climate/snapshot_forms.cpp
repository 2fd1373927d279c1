#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "engine/base/error.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"

/// The same snapshots in HDF5, NetCDF and NumPy are the same samples.
namespace keelson::climate {
namespace {

using testing::CdfType;
using testing::CdfVariable;
using testing::message_of;

constexpr std::int64_t kLatitudes = 4, kLongitudes = 6, kPlane = kLatitudes * kLongitudes, kTimes = 3;

float value_at(std::int64_t time, int channel, std::int64_t point) {
  return static_cast<float>(100 * channel + 7 * time) + 0.25f * static_cast<float>(point % 11);
}
float class_at(std::int64_t time, std::int64_t point) { return static_cast<float>((time + point) % 3); }

class SnapshotForms : public ::testing::Test {
 protected:
  SnapshotForms() {
    for (const char* name : {"hdf5", "other"}) std::filesystem::create_directory(folder_ / name);
    for (std::int64_t t = 0; t < kTimes; ++t) {
      auto f = hdf5::File::create(folder_ / fmt::format("hdf5/{}.h5", t));
      f.write("climate/data", data(t, kChannels).data(), {kLatitudes, kLongitudes, kChannels});
      f.write("climate/labels_0", labels(t).data(), {kLatitudes, kLongitudes});
      f.close();
    }
  }
  static std::vector<float> labels(std::int64_t time) {
    std::vector<float> v;
    for (std::int64_t p = 0; p < kPlane; ++p) v.push_back(class_at(time, p));
    return v;
  }
  /// (H, W, channels); channel 16 is the labels.
  static std::vector<float> data(std::int64_t time, int channels) {
    std::vector<float> v;
    for (std::int64_t p = 0; p < kPlane; ++p)
      for (int c = 0; c < channels; ++c) v.push_back(c < kChannels ? value_at(time, c, p) : class_at(time, p));
    return v;
  }
  /// Variables (time, lat, lon), in the opposite order.
  static std::vector<CdfVariable> variables(std::int64_t first, std::int64_t times) {
    std::vector<CdfVariable> all;
    for (int c = kChannels; c >= 0; --c) {
      const bool is_label = c == kChannels;
      all.push_back({is_label ? "LABELS" : kChannelNames[static_cast<std::size_t>(c)],
                     {0, 1, 2},
                     is_label  ? CdfType::i8
                     : c == TS ? CdfType::f64
                               : CdfType::f32,
                     {}});
      for (std::int64_t t = first; t < first + times; ++t)
        for (std::int64_t p = 0; p < kPlane; ++p)
          all.back().values.push_back(static_cast<double>(is_label ? class_at(t, p) : value_at(t, c, p)));
    }
    return all;
  }
  static std::string history(int version, std::int64_t times, const std::vector<CdfVariable>& all) {
    return testing::netcdf_of(version, {{"time", 0}, {"lat", kLatitudes}, {"lon", kLongitudes}}, all, times);
  }
  std::string other(const std::string& name, const std::string& bytes) const {
    return testing::write_file(folder_ / ("other/" + name), bytes);
  }
  /// All samples are those of the HDF5 files, also in parts.
  void expect_same(const std::string& path, const std::vector<int>& channels = {}) const {
    const SnapshotOptions options{.channels = channels};
    const SnapshotDataset expected(folder_ / "hdf5", options), found(path, options);
    ASSERT_EQ(found.size(), kTimes);
    ASSERT_EQ(found.fields()[0].shape, expected.fields()[0].shape);
    const auto read = [&](const SnapshotDataset& d, std::int64_t i, const Rows& rows) {
      std::vector<float> x(static_cast<std::size_t>(d.fields()[0].with_rows(rows).shape.elements()), -9);
      std::vector<std::int32_t> y(static_cast<std::size_t>(rows.size() * kLongitudes), -9);
      void* const dst[] = {x.data(), y.data()};
      const FieldRows both{rows, rows};
      d.read_sample({.id = {.index = i}, .rows = both}, dst);
      return std::pair(x, y);
    };
    for (std::int64_t i = 0; i < kTimes; ++i)
      for (const Rows rows : {Rows{0, kLatitudes}, Rows{1, 3}, Rows{-1, 1}, Rows{3, 6}})
        EXPECT_EQ(read(found, i, rows), read(expected, i, rows))
            << path << ", snapshot " << i << ", row " << rows.begin;
  }
  std::string refusal(const SnapshotOptions& options = {}) const {
    return message_of<InputError>([&] {
      const SnapshotDataset d(folder_ / "other", options);
      std::vector<float> x(static_cast<std::size_t>(d.fields()[0].shape.elements()));
      std::vector<std::int32_t> y(kPlane);
      void* const dst[] = {x.data(), y.data()};
      for (std::int64_t i = 0; i < d.size(); ++i) d.read(i, dst);
    });
  }

  testing::TemporaryFolder folder_;
};

#define EXPECT_TOLD(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(SnapshotForms, HistoryFilesOfNetCdf) {
  for (const int version : {1, 2, 5}) {
    other("a.nc", history(version, 2, variables(0, 2)));
    other("b.nc", history(version, 1, variables(2, 1)));
    expect_same(folder_ / "other");
    expect_same(folder_ / "other", {TS, TMQ, Z200});
  }
  const SnapshotDataset data(folder_ / "other", {});
  EXPECT_EQ(data.describe(), "3 snapshots of 16x4x6 with labels 0 under " + folder_ / "other");
  EXPECT_EQ(data.file_of(1), folder_ / "other/a.nc");
  EXPECT_EQ(data.name_of(1), "a-0001.h5");
  EXPECT_EQ(data.name_of(2), "b.h5");
  EXPECT_TRUE(data.has_labels(2));
  std::vector<float> x(kPlane * kChannels);
  SnapshotDataset(folder_ / "other", {.channels = {3}}).read_all_channels(2, x.data());
  EXPECT_EQ(x, SnapshotForms::data(2, kChannels));
}

/// netCDF-4 is HDF5; the largest variable is packed, and one is big-endian.
TEST_F(SnapshotForms, HistoryFilesOfNetCdf4) {
  auto f = hdf5::File::create(folder_ / "other/a.nc");
  for (const auto& v : variables(0, kTimes)) {
    if (v.name == "Z200") {  // values are multiples of a quarter
      std::vector<std::int16_t> packed;
      for (const double value : v.values) packed.push_back(static_cast<std::int16_t>((value - 1400) * 4));
      f.write(v.name, packed.data(), {kTimes, kLatitudes, kLongitudes});
      f.set_attribute(v.name, "scale_factor", 0.25);
      f.set_attribute(v.name, "add_offset", 1400.0);
    } else {
      f.write(v.name, std::vector<float>(v.values.begin(), v.values.end()).data(), {kTimes, kLatitudes, kLongitudes});
    }
  }
  f.close();
  expect_same(folder_ / "other");
}

TEST_F(SnapshotForms, ArraysOfNumPy) {
  for (std::int64_t t = 0; t < kTimes; ++t)
    other(fmt::format("{}.npy", t), testing::npy_of("<f4", "(4, 6, 17)", testing::bytes_of_numbers(data(t, 17))));
  expect_same(folder_ / "other");
  expect_same(folder_ / "other", {5, 2});
  EXPECT_EQ(SnapshotDataset(folder_ / "other", {}).name_of(1), "1.h5");
  EXPECT_TOLD(refusal({.labels = 1}), "has no labels 1. Expected labels 0, the last channel");
  auto bad = data(1, 17);
  bad[17 * 8 + 16] = 5;
  other("1.npy", testing::npy_of("<f4", "(4, 6, 17)", testing::bytes_of_numbers(bad)));
  EXPECT_TOLD(refusal(), "'1' holds 5 at (1, 2, 16). Expected 0 (background)");
  bad[17 * 8 + 16] = 0;
  bad[17 * 8 + 9] = NAN;
  other("1.npy", testing::npy_of("<f4", "(4, 6, 17)", testing::bytes_of_numbers(bad)));
  EXPECT_TOLD(refusal(), "'1' holds nan at (1, 2, 9), in channel T500. Expected finite numbers");
  for (std::int64_t t = 0; t < kTimes; ++t)
    other(fmt::format("{}.npy", t), testing::npy_of("<f4", "(4, 6, 16)", testing::bytes_of_numbers(data(t, 16))));
  const SnapshotDataset unlabelled(folder_ / "other", {.needs_labels = false});
  EXPECT_FALSE(unlabelled.has_labels(0));
  EXPECT_TOLD(refusal(), "keelson-climate label --with-data");
  for (std::int64_t t = 0; t < kTimes; ++t)
    other(fmt::format("{}.npy", t), testing::npy_of("<f4", "(16, 4, 6)", testing::bytes_of_numbers(data(t, 16))));
  EXPECT_TOLD(refusal(), "is float32 (16, 4, 6). Expected (H, W, 17)");
}

TEST_F(SnapshotForms, RefusesHistoryFiles) {
  const auto with = [&](const auto& change) {
    auto all = variables(0, 2);
    change(all);
    other("a.nc", history(2, 2, all));
    return refusal();
  };
  const auto find = [](std::vector<CdfVariable>& all, const std::string& name) {
    return std::ranges::find(all, name, &CdfVariable::name);
  };
  EXPECT_TOLD(with([&](auto& all) { all.erase(find(all, "TMQ")); }), "lacks the channels TMQ. It holds U850");
  EXPECT_TOLD(with([&](auto& all) { all.erase(find(all, "LABELS")); }),
              "has no labels 0. Expected 'labels_0', 'labels' or 'LABELS' beside the channels");
  EXPECT_TOLD(with([&](auto& all) {
                auto& v = *find(all, "PSL");
                v.dimensions = {0, 1};
                v.values.resize(2 * kLatitudes);
              }),
              "'TMQ' is float32 (2, 4, 6), and 'PSL' is float32 (2, 4). Expected the same grid and times");
  EXPECT_TOLD(with([&](auto& all) {
                auto& v = *find(all, "LABELS");
                v.dimensions = {1, 2};
                v.values.resize(kPlane);
              }),
              "'LABELS' is int8 (4, 6). Expected a class for each of the 2 x 4 x 6 points of 'TMQ'");
  EXPECT_TOLD(with([&](auto& all) {
                auto& v = *find(all, "T200");
                v.attributes.push_back({"_FillValue", CdfType::f32, {-999}});
                v.values[kPlane + 7] = -999;
              }),
              "'T200' holds nan at (1, 1, 1), in channel T200. Expected finite numbers");
  EXPECT_TOLD(with([&](auto& all) { find(all, "LABELS")->values[3] = 4; }), "'LABELS' holds 4 at (0, 0, 3)");
  EXPECT_TOLD(with([](auto& all) {
                for (auto& v : all) v.name = "v" + v.name;
              }),
              "has no 'climate/data', and no variables named as channels (TMQ, ...)");
  other("a.nc", history(2, 0, variables(0, 0)));
  EXPECT_TOLD(refusal(), "holds no snapshots");
}

/// A file that has changed in the meantime.
TEST_F(SnapshotForms, NoticesOtherTimes) {
  const auto path = other("a.nc", history(2, 2, variables(0, 2)));
  const SnapshotDataset data(path, {});
  other("a.nc", history(2, 3, variables(0, 3)));
  std::vector<float> x(kPlane * kChannels);
  EXPECT_TOLD(message_of<InputError>([&] { data.read_data(1, x.data()); }), "holds 3 snapshots now. Expected 2");
}

}  // namespace
}  // namespace keelson::climate
