#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "engine/data/coded_voxels.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/tfrecords.hpp"
#include "tests/universe/samples.hpp"

/// MLPerf HPC's TFRecords are read as HDF5 files of the same universes are.
namespace keelson::cosmoflow {
namespace {

using testing::counts;
using testing::TemporaryFolder;

std::string bytes_of_voxels(const std::vector<std::int16_t>& x) {
  std::string bytes(x.size() * sizeof x[0], ' ');
  std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

std::string universe_record(const std::vector<std::int16_t>& x, const std::vector<float>& y,
                            const std::string& name = "x") {
  return testing::tfrecord_of(
      testing::example_of({{"y", testing::floats_feature(y)}, {name, testing::bytes_feature(bytes_of_voxels(x))}}));
}

constexpr std::int64_t edge = 8, elements = edge * edge * edge * 4;

struct Universes {
  std::vector<std::vector<std::int16_t>> x;
  std::vector<std::vector<float>> y;
  explicit Universes(int count) {
    for (int i = 0; i < count; ++i) {
      x.push_back(counts<std::int16_t>(elements, static_cast<std::uint64_t>(i) + 1));
      y.push_back({static_cast<float>(i), -0.5f, 0.25f, 1});
    }
  }
};

void expect_same(const UniverseDataset& found, const UniverseDataset& wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    for (const int symmetry : {0, 5, 40}) EXPECT_EQ(read(found, i, symmetry), read(wanted, i, symmetry)) << what << i;
    const auto rows_of = [&](const UniverseDataset& data) {
      const Field& f = data.fields()[0];
      Sample s;
      s.x.assign(static_cast<std::size_t>(f.with_rows({1, f.shape[1]}).shape.elements()), -1.0f);
      s.y.resize(4);
      void* const dst[] = {s.x.data(), s.y.data()};
      const FieldRows rows{Rows{1, f.shape[1]}, std::nullopt};
      data.read_sample({.id = {.index = i}, .rows = rows}, dst);
      return s;
    };
    EXPECT_EQ(rows_of(found), rows_of(wanted)) << what << i;
    const auto codes_of = [&](const UniverseDataset& data) {
      std::vector<std::int16_t> codes(static_cast<std::size_t>(data.encoding(nullptr)->sample_bytes() / 2));
      std::vector<float> y(4);
      void* const dst[] = {codes.data(), y.data()};
      ops::VoxelSample voxels;
      data.read_sample({.id = {.index = i}, .encoding = &voxels}, dst);
      return codes;
    };
    EXPECT_EQ(codes_of(found), codes_of(wanted)) << what << i;
  }
}

TEST(TfRecordUniverses, HaveTheSamplesOfHdf5) {
  const TemporaryFolder folder;
  for (const char* sub : {"h5", "plain", "gz", "shards"}) std::filesystem::create_directory(folder / sub);
  const Universes u(5);
  std::string shard;
  for (std::size_t i = 0; i < u.x.size(); ++i) {
    const std::string name = "/u" + std::to_string(i), record = universe_record(u.x[i], u.y[i]);
    write_sample(folder / ("h5" + name + ".h5"), {edge, edge, edge, 4}, u.x[i], u.y[i]);
    testing::write_file(folder / ("plain" + name + ".tfrecord"), record);
    testing::write_file(folder / ("gz" + name + ".tfrecord.gz"), testing::compressed(record, testing::Container::gzip));
    shard += record;
    if (i == 3) {
      testing::write_file(folder / "shards/a.tfrecord-00000-of-00002", shard);
      shard.clear();
    }
  }
  testing::write_file(folder / "shards/a.tfrecord-00001-of-00002", shard);
  UniverseOptions cut;
  cut.size = 4;
  cut.channels = {2, 0};
  UniverseOptions mean;
  mean.normalisation = Normalisation::mean;
  for (const UniverseOptions& options : {UniverseOptions(), cut, mean}) {
    const UniverseDataset wanted(folder / "h5", options);
    for (const char* sub : {"plain", "gz", "shards"})
      expect_same(UniverseDataset(folder / sub, options), wanted, sub + std::string(", sample "));
  }
}

/// Channels are not named in the files: 4, as published, or the fewest that fit.
TEST(TfRecordUniverses, HaveTheChannelsThatFit) {
  const TemporaryFolder folder;
  for (const std::int64_t channels : {1, 2, 3, 4, 5}) {
    testing::write_file(folder / "a.tfrecord", universe_record(counts<std::int16_t>(216 * channels, 1), {1, 2}));
    EXPECT_EQ(UniverseDataset(folder / "a.tfrecord", {}).fields()[0].shape, (Shape{channels, 6, 6, 6}));
  }
}

TEST(TfRecordUniverses, AreRefusedByRecord) {
  const TemporaryFolder folder;
  const Universes u(2);
  const std::string good = universe_record(u.x[0], u.y[0]), path = folder / "a.tfrecord";
  const auto refused = [&](const std::string& bytes) {
    testing::write_file(path, bytes);
    return testing::message_of<InputError>(
        [&] { read(UniverseDataset(path, {}), 0), read(UniverseDataset(path, {}), 1); });
  };
  const auto says = [](const std::string& message, const std::string& what) {
    return message.find(what) != std::string::npos ? ::testing::AssertionSuccess()
                                                   : ::testing::AssertionFailure() << message;
  };
  EXPECT_TRUE(says(refused(""), "holds no records"));
  EXPECT_TRUE(says(refused(good + testing::tfrecord_of("no example")), "record 1, byte"));
  EXPECT_TRUE(
      says(refused(good + universe_record(u.x[1], u.y[1], "volume")), "record 1: has the features 'y', 'volume'"));
  EXPECT_TRUE(
      says(refused(good + universe_record(u.x[1], {1, 2})), "record 1 has 4096 bytes in 'x' and 2 numbers in 'y'"));
  EXPECT_TRUE(says(refused(good + universe_record(counts<std::int16_t>(2047, 1), u.y[1])), "record 1 has 4094 bytes"));
  EXPECT_TRUE(says(refused(universe_record(counts<std::int16_t>(2047, 1), u.y[1])), "has 4094 bytes. Expected a cube"));
  EXPECT_TRUE(says(refused(testing::tfrecord_of(testing::example_of(
                       {{"x", testing::floats_feature({1})}, {"y", testing::floats_feature({1})}}))),
                   "'x' has 1 floats. Expected one string of bytes"));
  EXPECT_TRUE(says(refused(good + universe_record(u.x[1], {1, 2, std::nanf(""), 4})), "'y' holds nan at (1, 2)"));
  std::string flipped = good + good;
  flipped[flipped.size() - 100] ^= 1;
  EXPECT_TRUE(says(refused(flipped), "record 1 at byte"));
  EXPECT_TRUE(says(refused(flipped), "do not match their checksum"));
}

}  // namespace
}  // namespace keelson::cosmoflow
