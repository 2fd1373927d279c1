#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "apps/cosmoflow/data/detail/universe_files.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/loader.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {
namespace {

namespace fs = std::filesystem;
using cosmoflow::UniverseDataset, cosmoflow::UniverseOptions;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

void write_universe(const std::string& path, std::uint64_t seed, const std::vector<float>& y, std::int64_t samples = 0,
                    const std::string& note = "") {
  auto file = hdf5::File::create(path);
  const auto n = std::max<std::int64_t>(samples, 1);
  hdf5::Dims x_shape{4, 4, 4, 2}, y_shape{std::ssize(y) / n};
  if (samples > 0) x_shape.insert(x_shape.begin(), n), y_shape.insert(y_shape.begin(), n);
  file.write("x", testing::counts<std::int16_t>(128 * n, seed).data(), x_shape);
  file.write("y", y.data(), y_shape);
  if (!note.empty()) file.set_attribute("/", "note", note);
  file.close();
}

/// A folder that all ranks see, made by rank 0.
class UniverseFilesTest : public MpiTest {
 protected:
  UniverseFilesTest() {
    std::string path = ::testing::TempDir() + "keelson-mpi-XXXXXX";
    if (rank() == 0) folder_ = mkdtemp(path.data());
    folder_ = world().allgather(folder_)[0];
  }
  ~UniverseFilesTest() override {
    world().barrier();
    if (rank() == 0) fs::remove_all(folder_);
  }
  std::string name(int i) const { return fmt::format("{}/{:04}.h5", folder_, i); }
  /// `count` files of one sample, every third with an attribute of its own, so that HDF5 has to open it.
  void write_files(int count) const {
    if (rank() == 0)
      for (int i = 0; i < count; ++i)
        write_universe(name(i), static_cast<std::uint64_t>(i), {float(i), -float(i)}, 0, i % 3 == 2 ? name(i) : "");
    world().barrier();
  }
  /// What opening throws, which must be the same on all ranks.
  std::string refusal(const std::string& path) const {
    std::string message = "was not refused";
    try {
      const UniverseDataset data(path, {}, &world());
    } catch (const InputError& error) {
      message = error.what();
    }
    for (const auto& other : world().allgather(message)) EXPECT_EQ(other, message);
    return message;
  }
  std::string folder_;
};

TEST_F(UniverseFilesTest, EachRankOpensAShare) {
  constexpr int files = 300;
  write_files(files);
  const UniverseDataset data(folder_, {}, &world());
  EXPECT_EQ(data.size(), files);
  std::int64_t opened = data.files_opened();
  const std::int64_t share = (files + size() - 1) / size();
  const std::int64_t besides = 1 + (size() > 1 ? cosmoflow::detail::UniverseFiles::sampled : 0);
  EXPECT_LE(opened, share + besides);
  world().allreduce(&opened, 1, Reduction::sum);
  EXPECT_EQ(opened, files + size() * besides) << "each file once, the first and the sampled ones by all";
}

/// Files in rounds, shares of the last one uneven, files of several samples: everything as one rank finds it.
TEST_F(UniverseFilesTest, AnyNumberOfRanksHasTheSameData) {
  constexpr int files = 11;
  if (rank() == 0)
    for (int i = 0; i < files; ++i) {
      const int samples = 1 + i % 3;
      std::vector<float> y(static_cast<std::size_t>(2 * samples));
      for (std::size_t k = 0; k < y.size(); ++k) y[k] = float(10 * i) + float(k);
      write_universe(name(i), static_cast<std::uint64_t>(i), y, samples);
    }
  world().barrier();
  const UniverseDataset together(folder_, {}, &world()), alone(folder_, {});
  EXPECT_EQ(together.digest(), alone.digest());
  EXPECT_EQ(together.describe(), alone.describe());
  ASSERT_EQ(together.size(), alone.size());
  std::vector<float> x[2], y[2];
  for (int i : {0, 1}) x[i].resize(128), y[i].resize(2);
  for (std::int64_t i = 0; i < alone.size(); ++i) {
    void *const a[] = {x[0].data(), y[0].data()}, *const b[] = {x[1].data(), y[1].data()};
    together.read(i, a);
    alone.read(i, b);
    EXPECT_EQ(x[0], x[1]);
    EXPECT_EQ(y[0], y[1]);
    EXPECT_EQ(together.file_of(i), alone.file_of(i));
  }
  const UniverseOptions cut{.size = 2};
  EXPECT_EQ(UniverseDataset(together, cut).digest(), UniverseDataset(folder_, cut).digest());
  EXPECT_NE(UniverseDataset(together, cut).digest(), together.digest());
}

/// Step by step, the samples of all ranks in their order are those that one rank reads.
TEST_F(UniverseFilesTest, TheOrderOfAnEpochIsThatOfOneRank) {
  write_files(23);
  const UniverseDataset data(folder_, {}, &world());
  const auto epoch_of = [](const Dataset& d, int rank, int ranks) {
    LoaderOptions options;
    options.batch = 4 / ranks;
    options.rank = rank;
    options.ranks = ranks;
    options.seed = 5;
    Loader loader(d, options);
    loader.start_epoch(3);
    std::vector<std::vector<float>> steps;
    while (const Batch* b = loader.next()) {
      const auto* y = static_cast<const float*>(b->fields[1]);
      steps.emplace_back(y, y + 2 * b->count);
    }
    return steps;
  };
  const auto mine = epoch_of(data, rank(), size());
  const auto expected = epoch_of(UniverseDataset(folder_, {}), 0, 1);
  ASSERT_EQ(mine.size(), expected.size());
  for (std::size_t s = 0; s < mine.size(); ++s)
    EXPECT_EQ(world().gather(mine[s], 0), rank() == 0 ? expected[s] : std::vector<float>{});
}

TEST_F(UniverseFilesTest, AnErrorInAnyShareIsThrownByAll) {
  constexpr int files = 40;
  write_files(files);
  for (const int bad : {0, 13, 27, 39}) {
    if (rank() == 0) write_universe(name(bad), 1, {nan, 0});
    world().barrier();
    const auto message = refusal(folder_);
    EXPECT_NE(message.find(name(bad) + ": 'y' holds nan at (0)"), std::string::npos) << message;
    const int owner = bad / ((files + size() - 1) / size());
    EXPECT_TRUE(size() == 1 || message.starts_with(fmt::format("rank {} (", owner))) << message;
    world().barrier();
    if (rank() == 0) write_universe(name(bad), 1, {float(bad), 0});
    world().barrier();
  }
  // Of several, the first in the order of names.
  if (rank() == 0)
    for (const int bad : {35, 22, 24}) write_universe(name(bad), 1, {0, nan});
  world().barrier();
  EXPECT_NE(refusal(folder_).find(name(22)), std::string::npos);
}

TEST_F(UniverseFilesTest, ErrorsOfListingAreThrownByAll) {
  EXPECT_NE(refusal(folder_ + "/nothing").find("does not exist"), std::string::npos);
  EXPECT_NE(refusal(folder_).find("is an empty folder"), std::string::npos);
}

/// The last rank has a folder of its own, as on another node, in which something differs.
class OtherFolderTest : public UniverseFilesTest {
 protected:
  void SetUp() override {
    if (size() == 1) GTEST_SKIP() << "needs 2 ranks";
    write_files(12);
    other_ = folder_ + "-other";
    if (rank() == 0) fs::copy(folder_, other_);
    world().barrier();
  }
  void TearDown() override {
    world().barrier();
    if (rank() == 0 && !other_.empty()) fs::remove_all(other_);
    MpiTest::TearDown();
  }
  bool is_other() const { return rank() == size() - 1; }
  std::string mine() const { return is_other() ? other_ : folder_; }
  std::string other_name(int i) const { return fmt::format("{}/{:04}.h5", other_, i); }
  std::string last_rank() const { return fmt::format("rank {} (", size() - 1); }
  std::string other_;
};

TEST_F(OtherFolderTest, TheSameFilesElsewhereWillDo) {
  const UniverseDataset data(mine(), {}, &world());
  EXPECT_EQ(data.file_of(5), is_other() ? other_name(5) : name(5));
  EXPECT_EQ(data.digest(), UniverseDataset(folder_, {}).digest());
  std::vector<float> x(128), y(2);
  void* const dst[] = {x.data(), y.data()};
  data.read(5, dst);
  EXPECT_EQ(y[0], 5);
}

TEST_F(OtherFolderTest, WhatDiffersIsRefusedWithRankAndFile) {
  const auto refused = [&](int file, const std::string& why) {
    const auto message = refusal(mine());
    EXPECT_TRUE(message.starts_with(last_rank())) << message;
    EXPECT_NE(message.find(other_name(file)), std::string::npos) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
    world().barrier();
    if (rank() == 0) fs::copy(name(file), other_name(file), fs::copy_options::overwrite_existing);
    world().barrier();
  };
  const auto change = [&](auto&& work) {
    if (rank() == 0) work();
    world().barrier();
  };
  // File 11 is of the last rank's own share, file 1 of another's.
  for (const int file : {1, 11}) {
    change([&] { fs::remove(other_name(file)); });
    refused(file, "No such file");
  }
  change([&] { write_universe(other_name(1), 1, {0.5f, -1}); });
  refused(1, "other arrays, attributes or targets");
  change([&] { write_universe(other_name(2), 2, {0.5f, -2}); });
  refused(2, "another size");
  change([&] { fs::remove_all(other_); });
  const auto message = refusal(mine());
  EXPECT_TRUE(message.starts_with(last_rank())) << message;
  EXPECT_NE(message.find(other_ + ": does not exist here"), std::string::npos) << message;
}

TEST_F(OtherFolderTest, AnotherFirstFileIsRefused) {
  if (rank() == 0) {
    for (int i = 0; i < 12; ++i) write_universe(other_name(i), 1, {0, 0, 0});
  }
  world().barrier();
  const auto message = refusal(mine());
  EXPECT_NE(message.find("different data in 0000.h5: " + last_rank()), std::string::npos) << message;
}

TEST_F(UniverseFilesTest, RanksThatFailTogetherSayWhichWasFirst) {
  for (const int bad : {0, size() - 1}) {
    std::string message;
    try {
      on_each_rank(&world(), [&] {
        if (rank() >= bad) refuse("no data here");
      });
    } catch (const InputError& error) {
      message = error.what();
    }
    EXPECT_NE(message.find("no data here"), std::string::npos);
    EXPECT_TRUE(size() == 1 || message.starts_with(fmt::format("rank {} (", bad))) << message;
  }
  int calls = 0;
  on_each_rank(&world(), [&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(on_each_rank(&world(), [] { fail("not the user"); }), Error);
}

}  // namespace
}  // namespace keelson::testing
