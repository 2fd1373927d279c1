#include "apps/climate/weather/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::climate {
namespace {

namespace fs = std::filesystem;
using hdf5::Dims;
using testing::message_of;

class GenerateClimate : public ::testing::Test {
 protected:
  GenerateOptions options(const std::string& name = "data") const {
    GenerateOptions o;
    o.directory = folder_ / name;
    o.snapshots = {3, 1, 1};
    o.grid = {64, 96};
    o.rates = {4, 5};
    return o;
  }

  struct Made {
    std::int64_t written, found;
    Statistics statistics;
  };
  static Made run(const GenerateOptions& o, int threads = 1) {
    const auto self = comm::make_self();
    Generator g(o, *self, threads);
    g.prepare();
    g.make([](std::int64_t, std::int64_t) {});
    const Statistics s = g.write_statistics();
    return {g.written(), g.found(), s};
  }
  static std::string refusal(const GenerateOptions& o) {
    return message_of<InputError>([&] { run(o); });
  }

  std::map<std::string, std::string> contents(const std::string& name = "data") const {
    std::map<std::string, std::string> all;
    const fs::path root = folder_ / name;
    for (const auto& entry : fs::recursive_directory_iterator(root))
      if (entry.is_regular_file()) all[fs::relative(entry.path(), root)] = testing::bytes_of(entry.path());
    return all;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(GenerateClimate, WritesThePublicLayout) {
  EXPECT_EQ(run(options()).written, 5);
  const auto f = hdf5::File::open(folder_ / "data/train/data-0000001.h5");
  EXPECT_EQ(f.info("climate/data").shape, (Dims{64, 96, 16}));
  EXPECT_EQ(f.info("climate/data").type, hdf5::Type::f32);
  EXPECT_GE(f.info("climate/data").raw_offset, 0);
  EXPECT_EQ(f.info("climate/labels_0").shape, (Dims{64, 96}));
  EXPECT_EQ(f.info("climate/labels_0").type, hdf5::Type::f32);
  EXPECT_EQ(f.info("climate/data_stats").shape, (Dims{4, 16}));
  EXPECT_EQ(f.info("climate/labels_0_stats").shape, (Dims{7, 1}));
  EXPECT_EQ(f.texts_attribute("/", "channel_names")[14], "Z200");

  Snapshot s;
  const SnapshotKey key = key_of(1, 0, 1);
  make_snapshot(Weather({64, 96}, key, {4, 5}), key, 0.001, 1, s);
  EXPECT_EQ(f.read<float>("climate/data"), s.data);
  EXPECT_EQ(f.read<float>("climate/labels_0"), s.labels);
  const auto table = f.read<float>("climate/data_stats");
  const double n = 64 * 96;
  for (int c = 0; c < kChannels; ++c) {
    EXPECT_FLOAT_EQ(table[c], static_cast<float>(s.sums.sum[c] / n));
    EXPECT_EQ(table[16 + c], s.sums.most[c]);
    EXPECT_EQ(table[32 + c], s.sums.least[c]);
    EXPECT_GT(table[48 + c], 0);
  }
  const auto labels = f.read<float>("climate/labels_0_stats");
  EXPECT_EQ(labels[1], 2);  // a river
  EXPECT_EQ(labels[2], 0);
  EXPECT_NEAR(labels[4] + labels[5] + labels[6], 1, 1e-6);
  EXPECT_NEAR(labels[0], labels[5] + 2 * labels[6], 1e-6);
}

TEST_F(GenerateClimate, WritesStatisticsInBothLayouts) {
  run(options());
  const auto f = hdf5::File::open(folder_ / "data/stats.h5");
  EXPECT_EQ(f.info("climate/count").shape, Dims{});
  EXPECT_EQ(f.read<std::int64_t>("climate/count"), std::vector<std::int64_t>{3});
  EXPECT_EQ(f.info("climate/stats").shape, (Dims{16, 4}));
  const auto mean = f.read<float>("climate/mean"), squares = f.read<float>("climate/sqmean"),
             least = f.read<float>("climate/minval"), most = f.read<float>("climate/maxval"),
             table = f.read<float>("climate/stats");
  for (int c = 0; c < kChannels; ++c) {
    double sum = 0, square = 0;
    std::vector<float> all;
    for (int i = 0; i < 3; ++i) {
      const auto x = hdf5::File::open(folder_ / ("data/train/data-000000" + std::to_string(i) + ".h5"))
                         .read<float>("climate/data");
      for (std::size_t p = c; p < x.size(); p += kChannels) {
        all.push_back(x[p]);
        sum += x[p];
        square += static_cast<double>(x[p]) * x[p];
      }
    }
    const double n = static_cast<double>(all.size());
    EXPECT_NEAR(mean[c], sum / n, 2e-6 * std::sqrt(square / n)) << c;
    EXPECT_NEAR(squares[c], square / n, 1e-6 * square / n);
    EXPECT_EQ(least[c], *std::ranges::min_element(all));
    EXPECT_EQ(most[c], *std::ranges::max_element(all));
    EXPECT_EQ(table[4 * c], mean[c]);
    EXPECT_EQ(table[4 * c + 1], most[c]);
    EXPECT_EQ(table[4 * c + 2], least[c]);
    EXPECT_NEAR(table[4 * c + 3], std::sqrt(square / n - sum / n * sum / n), 1e-5 * table[4 * c + 3]);
  }
}

TEST_F(GenerateClimate, KeepsWhatIsThereAndMakesTheRest) {
  run(options("whole"), 2);
  GenerateOptions o = options();
  o.snapshots = {1, 0, 0};
  run(o);
  o = options();
  EXPECT_EQ(run(o).found, 1);
  EXPECT_EQ(contents(), contents("whole"));
  fs::remove(o.directory / "train/data-0000001.h5");
  fs::remove(o.directory / "stats.h5");
  const Made again = run(o);
  EXPECT_EQ(again.written, 1);
  EXPECT_EQ(again.found, 4);
  EXPECT_EQ(again.statistics.snapshots, 3);
  EXPECT_EQ(contents(), contents("whole"));
}

TEST_F(GenerateClimate, RefusesOtherContents) {
  run(options());
  const auto before = contents();
  GenerateOptions other = options();
  other.seed = 2;
  EXPECT_NE(refusal(other).find("--overwrite"), std::string::npos);
  fs::rename(other.directory / "stats.h5", folder_ / "stats.h5");
  EXPECT_NE(refusal(other).find("data-0000000.h5 exists with other contents"), std::string::npos) << refusal(other);
  fs::rename(folder_ / "stats.h5", other.directory / "stats.h5");
  GenerateOptions fewer = options();
  fewer.snapshots = {2, 1, 1};
  EXPECT_NE(refusal(fewer).find("1 other file (data-0000002.h5) besides"), std::string::npos) << refusal(fewer);
  fewer.snapshots = {3, 1, 0};
  EXPECT_NE(refusal(fewer).find("1 other file"), std::string::npos);
  EXPECT_EQ(contents(), before);

  fewer.seed = 2;
  fewer.overwrite = true;
  EXPECT_EQ(run(fewer).written, 4);
  EXPECT_EQ(run(fewer).found, 4);
  const auto after = contents();
  EXPECT_EQ(after.size(), 5u);
  EXPECT_NE(after.at("train/data-0000000.h5"), before.at("train/data-0000000.h5"));

  testing::write_file(folder_ / "data/train/data-1996-06-01-00-1.h5", "somebody's");
  EXPECT_NE(refusal(fewer).find("data-1996"), std::string::npos);
  EXPECT_EQ(testing::bytes_of(folder_ / "data/train/data-1996-06-01-00-1.h5"), "somebody's");
}

TEST_F(GenerateClimate, MakesDamagedFilesAnewWhereAsked) {
  GenerateOptions o = options();
  run(o);
  const auto before = contents();
  const std::string path = folder_ / "data/train/data-0000001.h5";
  testing::write_file(path, testing::bytes_of(path).substr(0, 1000));
  EXPECT_NE(refusal(o).find("data-0000001.h5"), std::string::npos);
  o.overwrite = true;
  EXPECT_EQ(run(o).written, 1);
  EXPECT_EQ(contents(), before);
}

TEST_F(GenerateClimate, RefusesWhatCannotWork) {
  const auto with = [&](auto change) {
    GenerateOptions o = options();
    change(o);
    EXPECT_THROW(run(o), InputError);
  };
  with([](auto& o) { o.snapshots = {0, 0, 0}; });
  with([](auto& o) { o.snapshots = {-1, 0, 0}; });
  with([](auto& o) { o.snapshots = {10'000'001, 0, 0}; });
  with([](auto& o) { o.grid.rows = 48; });
  with([](auto& o) { o.grid.columns = 72; });
  with([](auto& o) { o.rates.cyclones = -1; });
  with([](auto& o) { o.rates.rivers = 101; });
  with([](auto& o) { o.rates.rivers = std::nan(""); });
  with([](auto& o) { o.noise = 2; });
  EXPECT_FALSE(fs::exists(options().directory)) << "something was written";
  testing::write_file(folder_ / "data", "a file where the folder should be");
  with([](auto&) {});
}

}  // namespace
}  // namespace keelson::climate
