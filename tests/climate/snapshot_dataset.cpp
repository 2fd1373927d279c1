#include "apps/climate/data/snapshot_dataset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::climate {
namespace {

using hdf5::Dims;
using testing::message_of;

constexpr std::int64_t kRows = 4, kColumns = 6, kPoints = kRows * kColumns;

/// Value of a channel at a point, in files of these tests.
float stored(std::int64_t point, int channel) { return static_cast<float>(10 * channel + point % 7) - 3; }
std::int32_t label(std::int64_t point, int map) { return static_cast<std::int32_t>((point + map) % 3); }

class SnapshotData : public ::testing::Test {
 protected:
  std::string path(int i = 0) const { return folder_ / fmt::format("data-{}.h5", i); }

  /// (H, W, C) or (C, H, W), of these channels.
  static std::vector<float> values(const std::vector<int>& channels, bool last) {
    const auto n = static_cast<std::int64_t>(channels.size());
    std::vector<float> v(static_cast<std::size_t>(n * kPoints));
    for (std::int64_t p = 0; p < kPoints; ++p)
      for (std::int64_t k = 0; k < n; ++k)
        v[static_cast<std::size_t>(last ? p * n + k : k * kPoints + p)] =
            stored(p, channels[static_cast<std::size_t>(k)]);
    return v;
  }
  static std::vector<int> all() {
    std::vector<int> c(kChannels);
    for (int i = 0; i < kChannels; ++i) c[static_cast<std::size_t>(i)] = i;
    return c;
  }
  template <class T>
  static std::vector<T> labels(int map) {
    std::vector<T> v;
    for (std::int64_t p = 0; p < kPoints; ++p) v.push_back(static_cast<T>(label(p, map)));
    return v;
  }
  /// A file of the public layout.
  void write_public(int i, std::vector<float> data = values(all(), true)) const {
    auto f = hdf5::File::create(path(i));
    f.write("climate/data", data.data(), {kRows, kColumns, kChannels});
    f.write("climate/labels_0", labels<float>(0).data(), {kRows, kColumns});
    f.close();
  }

  struct Sample {
    std::vector<float> x;
    std::vector<std::int32_t> labels;
  };
  static Sample read(const Dataset& data, std::int64_t i = 0) {
    Sample s{std::vector<float>(static_cast<std::size_t>(data.fields()[0].shape.elements())),
             std::vector<std::int32_t>(static_cast<std::size_t>(data.fields()[1].shape.elements()))};
    void* const dst[] = {s.x.data(), s.labels.data()};
    data.read(i, dst);
    return s;
  }
  /// read_sample() of some rows, within the snapshot and beyond its edges, is a part of read().
  static void expect_parts(const SnapshotDataset& data) {
    const Sample whole = read(data);
    const auto at = [](const auto& values, std::int64_t row, std::int64_t i, std::int64_t size) {
      return row < 0 || row >= kRows ? 0 : values[static_cast<std::size_t>(row * size + i)];
    };
    const std::int64_t row_of_x = data.fields()[0].shape.elements() / kRows;
    for (const Rows of_x : {Rows{-1, 3}, Rows{0, 4}, Rows{2, 6}, Rows{1, 2}, Rows{-3, -1}, Rows{5, 7}})
      for (const std::optional<Rows> of_labels : {std::optional<Rows>(), std::optional(Rows{1, 3})}) {
        const Rows wanted = of_labels.value_or(Rows{0, kRows});
        Sample part{std::vector<float>(static_cast<std::size_t>(of_x.size() * row_of_x), -99.0f),
                    std::vector<std::int32_t>(static_cast<std::size_t>(wanted.size() * kColumns), -99)};
        void* const dst[] = {part.x.data(), part.labels.data()};
        const FieldRows both{of_x, of_labels};
        data.read_sample({.rows = both}, dst);
        for (std::int64_t i = 0; i < of_x.size() * row_of_x; ++i)
          ASSERT_EQ(part.x[static_cast<std::size_t>(i)], at(whole.x, of_x.begin + i / row_of_x, i % row_of_x, row_of_x))
              << "rows " << of_x.begin << " to " << of_x.end << ", element " << i;
        for (std::int64_t i = 0; i < wanted.size() * kColumns; ++i)
          ASSERT_EQ(part.labels[static_cast<std::size_t>(i)],
                    at(whole.labels, wanted.begin + i / kColumns, i % kColumns, kColumns));
      }
  }
  std::string refusal(const SnapshotOptions& o = {}) const {
    return message_of<InputError>([&] { read(SnapshotDataset(folder_.path(), o)); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SnapshotData, ReadsThePublicLayout) {
  write_public(0);
  write_public(1);
  testing::write_file(folder_ / "stats.h5", "not read");
  const SnapshotDataset data(folder_.path(), {});
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.fields()[0].name, "x");
  EXPECT_EQ(to_string(data.fields()[0].shape), "16x4x6");
  EXPECT_EQ(data.fields()[1].name, "y");
  EXPECT_EQ(to_string(data.fields()[1].shape), "4x6");
  EXPECT_EQ(data.fields()[1].dtype, DType::s32);
  EXPECT_EQ(data.describe(), "2 snapshots of 16x4x6 with labels 0 under " + folder_.path());
  const Sample s = read(data, 1);
  EXPECT_EQ(s.x, values(all(), true));
  EXPECT_EQ(s.labels, labels<std::int32_t>(0));
  expect_parts(data);
}

/// As SC18 reformatted them: channels first, both maps in one array, a part of the channels.
TEST_F(SnapshotData, ReadsChannelsFirstAndALabelAxis) {
  auto f = hdf5::File::create(path());
  const std::vector<int> held{7, 0, 2, 1};
  f.write("climate/data", values(held, false).data(), {4, kRows, kColumns});
  f.write("climate/channels", held.data(), {4});
  std::vector<std::int64_t> both = labels<std::int64_t>(0);
  for (const auto l : labels<std::int64_t>(1)) both.push_back(l);
  f.write("climate/labels", both.data(), {2, kRows, kColumns});
  f.close();
  const SnapshotDataset data(path(), {.channels = {0, 1, 7}, .labels = 1});
  EXPECT_EQ(read(data).x, values({0, 1, 7}, true));
  EXPECT_EQ(read(data).labels, labels<std::int32_t>(1));
  expect_parts(data);
  EXPECT_NE(refusal().find("lacks the channels UBOT"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("choose among these (7,0,2,1)"), std::string::npos) << refusal();
  EXPECT_NE(refusal({.channels = {0}, .labels = 2}).find("has no labels 2"), std::string::npos);
}

/// Other types, orders of bytes, compressed.
TEST_F(SnapshotData, ReadsWhatHdf5Converts) {
  auto f = hdf5::File::create(path());
  const auto plain = values(all(), true);
  f.write("climate/data", std::vector<double>(plain.begin(), plain.end()).data(), {kRows, kColumns, kChannels});
  f.write("climate/labels_1", labels<std::uint8_t>(1).data(), {1, kRows, kColumns});
  f.close();
  const SnapshotDataset data(path(), {.channels = {15, 3}, .labels = 1});
  EXPECT_EQ(read(data).x, values({15, 3}, true));
  EXPECT_EQ(read(data).labels, labels<std::int32_t>(1));
  expect_parts(data);
  EXPECT_NE(refusal().find("has no labels 0"), std::string::npos) << refusal();
}

TEST_F(SnapshotData, NormalisesByTheRangesOfBothLayouts) {
  write_public(0);
  const SnapshotDataset plain(folder_.path(), {});
  const ChannelRanges measured = measure_ranges(plain, nullptr);
  EXPECT_EQ(measured.least[2], 17);
  EXPECT_EQ(measured.most[2], 23);
  {
    auto f = hdf5::File::create(folder_ / "mlperf.h5");
    f.write("climate/minval", measured.least.data(), {kChannels});
    f.write("climate/maxval", measured.most.data(), {kChannels});
    f.close();
    auto g = hdf5::File::create(folder_ / "sc18.h5");
    std::vector<float> table;
    for (std::size_t c = 0; c < kChannels; ++c)
      for (const float v : {99.0f, measured.most[c], measured.least[c], 98.0f}) table.push_back(v);
    g.write("climate/stats", table.data(), {kChannels, 4});
    g.close();
  }
  for (const char* name : {"mlperf.h5", "sc18.h5"}) {
    const ChannelRanges found = read_ranges(folder_ / name);
    EXPECT_EQ(found.least, measured.least) << name;
    EXPECT_EQ(found.most, measured.most) << name;
    EXPECT_FALSE(found.chosen) << name;
  }

  const SnapshotDataset data(plain, measured, "measured");
  EXPECT_EQ(data.ranges(), measured);
  EXPECT_NE(data.digest(), plain.digest());
  const Sample s = read(data);
  for (std::int64_t p = 0; p < kPoints; ++p)
    for (int c = 0; c < kChannels; ++c)
      ASSERT_FLOAT_EQ(s.x[static_cast<std::size_t>(p * kChannels + c)], static_cast<float>(p % 7) / 6) << p << " " << c;

  const SnapshotDataset few(path(), {.channels = {5, 2}});
  EXPECT_EQ(SnapshotDataset(few, read_ranges(folder_ / "sc18.h5"), "").ranges().least, (std::vector<float>{47, 17}));
  std::vector<int> backward = all();
  std::ranges::reverse(backward);
  const SnapshotDataset turned(path(), {.channels = backward});
  const ChannelRanges turned_ranges = measure_ranges(turned, nullptr);
  EXPECT_EQ(turned_ranges.least[15], -3) << "in the order of the chosen channels";
  EXPECT_EQ(SnapshotDataset(turned, turned_ranges, "").ranges(), turned_ranges);
  EXPECT_EQ(SnapshotDataset(turned, read_ranges(folder_ / "sc18.h5"), "").ranges(), turned_ranges);
  EXPECT_NE(message_of<InputError>([&] {
              SnapshotDataset(plain, ChannelRanges{{1, 2, 3}, {2, 3, 4}}, "other.h5");
            }).find("other.h5: has statistics of 3 channels. Expected 16"),
            std::string::npos);
}

TEST_F(SnapshotData, RefusesStatistics) {
  const auto refused = [&](const std::vector<float>& least, const std::vector<float>& most) {
    auto f = hdf5::File::create(folder_ / "stats.h5");
    if (!least.empty()) f.write("climate/minval", least.data(), {std::ssize(least)});
    f.write("climate/maxval", most.data(), {std::ssize(most)});
    f.close();
    return message_of<InputError>([&] { read_ranges(folder_ / "stats.h5"); });
  };
  EXPECT_NE(refused({}, {1}).find("holds no statistics of channels"), std::string::npos);
  EXPECT_NE(refused({0, 1}, {1}).find("'climate/minval' has 2 and 'climate/maxval' 1 values"), std::string::npos);
  EXPECT_NE(refused({0, 2}, {1, 1}).find("channel 1 ranges from 2 to 1"), std::string::npos);
  EXPECT_NE(refused({NAN}, {1}).find("channel 0 ranges from nan to 1"), std::string::npos);
}

TEST_F(SnapshotData, RefusesGridsThatTheNetworkCannotTake) {
  write_public(0);
  EXPECT_EQ(SnapshotDataset(folder_.path(), {.multiple = 2}).size(), 1);
  EXPECT_NE(refusal({.multiple = 4})
                .find("has 4 x 6 points (latitudes x longitudes), and the network takes multiples of "
                      "4. Choose another network, or bring the snapshots to a grid such as 4 x 4"),
            std::string::npos)
      << refusal({.multiple = 4});
}

TEST_F(SnapshotData, NamesThePlaceOfWhatIsNoNumber) {
  for (const bool normalised : {false, true}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      auto data = values(all(), true);
      data[(2 * kColumns + 3) * kChannels + 8] = bad;
      write_public(0, data);
      SnapshotDataset plain(folder_.path(), {});
      const SnapshotDataset scaled(plain, {std::vector(16, -5.0f), std::vector(16, 200.0f)}, "");
      EXPECT_NE(message_of<InputError>([&] { read(normalised ? scaled : plain); })
                    .find(fmt::format("{}: 'climate/data' holds {} at (2, 3, 8), in channel T200. Expected finite",
                                      path(), bad)),
                std::string::npos);
      std::vector<float> x(2 * kColumns * kChannels);
      std::vector<std::int32_t> y(2 * kColumns);
      void* const dst[] = {x.data(), y.data()};
      const auto part = [&](const Rows& rows) {
        const FieldRows both{rows, rows};
        scaled.read_sample({.rows = both}, dst);
      };
      EXPECT_NO_THROW(part({0, 2})) << "the number is in another rank's part";
      EXPECT_NE(message_of<InputError>([&] { part({1, 3}); }).find("at (2, 3, 8)"), std::string::npos);
    }
  }
  auto f = hdf5::File::create(path());
  auto first = values(all(), false);
  first[9 * kPoints + 1] = NAN;
  f.write("climate/data", first.data(), {kChannels, kRows, kColumns});
  f.write("climate/labels_0", labels<float>(0).data(), {kRows, kColumns});
  f.close();
  EXPECT_NE(refusal().find("holds nan at (9, 0, 1), in channel T500"), std::string::npos) << refusal();
}

TEST_F(SnapshotData, RefusesLabels) {
  const auto with = [&](float bad) {
    auto wrong = labels<float>(0);
    wrong[7] = bad;
    auto f = hdf5::File::create(path());
    f.write("climate/data", values(all(), true).data(), {kRows, kColumns, kChannels});
    f.write("climate/labels_0", wrong.data(), {kRows, kColumns});
    f.close();
    return refusal();
  };
  for (const float bad : {3.0f, -1.0f, 0.5f, NAN}) {
    EXPECT_NE(
        with(bad).find(fmt::format("{}: 'climate/labels_0' holds {} at (1, 1). Expected 0 (background), 1 (tropical "
                                   "cyclone) or 2 (atmospheric river)",
                                   path(), bad)),
        std::string::npos)
        << with(bad);
  }
  auto f = hdf5::File::create(path());
  f.write("climate/data", values(all(), true).data(), {kRows, kColumns, kChannels});
  f.write("climate/labels_0", labels<float>(0).data(), {kColumns, kRows});
  f.close();
  EXPECT_NE(refusal().find("'climate/labels_0' is float32 (6, 4). Expected a class for each of the 4 x 6 points"),
            std::string::npos)
      << refusal();
}

TEST_F(SnapshotData, RefusesWhatIsNoSnapshotAndFilesThatDiffer) {
  auto f = hdf5::File::create(path());
  f.write("climate/data", values({0, 1, 2}, true).data(), {kRows, kColumns, 3});
  f.write("climate/labels_0", labels<float>(0).data(), {kRows, kColumns});
  f.close();
  EXPECT_NE(
      refusal().find("'climate/data' is float32 (4, 6, 3). Expected numbers of 16 channels, (H, W, 16) or (16, H, W)"),
      std::string::npos)
      << refusal();
  auto g = hdf5::File::create(path());
  g.write("x", values({0}, true).data(), {kRows, kColumns, 1});
  g.close();
  EXPECT_NE(refusal().find("has no 'climate/data'"), std::string::npos) << refusal();

  write_public(0);
  auto h = hdf5::File::create(path(1));
  h.write("climate/data", values(all(), false).data(), {kChannels, kRows, kColumns});
  h.write("climate/labels_0", labels<float>(0).data(), {kRows, kColumns});
  h.close();
  EXPECT_NE(refusal().find(path(1) + ": holds (16, 4, 6)"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace keelson::climate
