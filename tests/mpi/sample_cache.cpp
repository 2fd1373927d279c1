#include "engine/data/cache/sample_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/cache/batch_shares.hpp"
#include "engine/data/epoch_order.hpp"
#include "engine/data/loader.hpp"
#include "engine/data/stage/file_copies.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/data_files.hpp"

/// Loaders with a cache, on one rank and on several that send samples to each other.
namespace keelson::testing {
namespace {

constexpr std::uint64_t seed = 13;
constexpr std::int64_t values = 40;

/// Sample i is the numbers 1000 i, 1000 i + 1, ... and the target i.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size), fields_{{"x", {values}}, {"y", {1}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    if (index == bad) refuse("sample {} is bad", index);
    if (copies && all_are_copied) {
      EXPECT_TRUE(copies->has(file_number_of(index))) << index;
    }
    for (std::int64_t i = 0; i < values; ++i) static_cast<float*>(dst[0])[i] = value(index, i);
    static_cast<float*>(dst[1])[0] = static_cast<float>(index);
    ++reads;
  }
  std::string describe() const override { return "numbers"; }
  std::int64_t file_number_of(std::int64_t index) const override { return index / per_file; }
  static float value(std::int64_t index, std::int64_t i) { return static_cast<float>(1000 * index + i); }

  static constexpr std::int64_t per_file = 3;
  std::int64_t bad = -1;
  std::shared_ptr<const FileCopies> copies;
  bool all_are_copied = false;
  mutable std::atomic<std::int64_t> reads = 0;

 private:
  std::int64_t size_;
  std::vector<Field> fields_;
};

struct Case {
  std::int64_t size, batch, memory, disk;  ///< samples; the last two: that a rank can keep
  bool keep_places = false;
  int threads = 2;
};

class SampleCacheTest : public MpiTest {
 protected:
  SampleCacheTest() {
    if (rank() == 0) folder_.emplace();
    path_ = world().allgather(folder_ ? folder_->path() : "")[0];
  }
  Loader& make(const Dataset& data, const Case& c) {
    loader_.reset();
    peers_ = size() > 1 ? world().split(0, rank()) : nullptr;
    const std::int64_t bytes = data.stored_bytes();
    LoaderOptions o{.batch = c.batch, .rank = rank(), .ranks = size(), .seed = seed};
    o.threads.count = c.threads;
    o.cache = {.memory = c.memory * (bytes + 1), .disk = c.disk * bytes, .folder = path_};
    o.peers = peers_.get();
    o.keep_places = c.keep_places;
    return loader_.emplace(data, o);
  }
  static CachedSamples kept(const Case& c) {
    const std::int64_t most = (c.size + world().size() - 1) / world().size();
    const std::int64_t memory = std::min(c.memory, most);
    return {c.size, world().size(), memory, std::min(c.disk, most - memory)};
  }
  std::int64_t sum(std::int64_t mine) {
    world().allreduce(&mine, 1, Reduction::sum);
    return mine;
  }
  /// Runs an epoch, and compares each step with the samples of the epoch's order. Returns how many samples should have
  /// been sent from rank to rank.
  std::int64_t check_epoch(Loader& loader, const Case& c, std::int64_t epoch, std::int64_t first = 0) {
    const EpochOrder order(c.size, seed, epoch);
    loader.start_epoch(epoch, first);
    std::int64_t moved = 0;
    for (std::int64_t begin = first; begin < c.size; begin += c.batch * size()) {
      const GlobalBatch global{std::min(c.size - begin, c.batch * size()), c.batch};
      const auto shares =
          deal_samples(global, kept(c), c.keep_places, [&](std::int64_t place) { return order[begin + place]; });
      for (int r = 0; r < size(); ++r)
        for (const BatchSample& s : shares[static_cast<std::size_t>(r)]) moved += s.holder >= 0 && s.holder != r;
      const Batch* b = loader.next();
      EXPECT_NE(b, nullptr);
      if (b) check_batch(*b, global, shares[static_cast<std::size_t>(rank())], c);
    }
    EXPECT_EQ(loader.next(), nullptr);
    return moved;
  }
  static void check_batch(const Batch& b, const GlobalBatch& global, const std::vector<BatchSample>& share,
                          const Case& c) {
    EXPECT_EQ(b.global_count, global.count);
    EXPECT_EQ(b.count, global.count_of(world().rank()));
    EXPECT_EQ(b.count, std::ssize(share));
    const auto *x = static_cast<const float*>(b.fields[0]), *y = static_cast<const float*>(b.fields[1]);
    for (std::int64_t i = 0; i < c.batch; ++i) {
      const bool filled = i < b.count;
      EXPECT_EQ(b.weight[i], filled ? 1.0f : 0.0f);
      if (filled) {
        EXPECT_EQ(b.indices[i], share[static_cast<std::size_t>(i)].sample);
      }
      if (b.count == 0) continue;
      const std::int64_t index = b.indices[filled ? i : 0];  // beyond the samples lies the first one
      EXPECT_EQ(y[i], static_cast<float>(index));
      for (std::int64_t k = 0; k < values; ++k) EXPECT_EQ(x[i * values + k], Numbers::value(index, k));
    }
  }

  std::optional<TemporaryFolder> folder_;
  std::string path_;
  std::unique_ptr<Communicator> peers_;
  std::optional<Loader> loader_;
};

TEST_F(SampleCacheTest, ReadsFromTheFilesWhatNoRankKeeps) {
  for (const Case& c : {Case{64, 2, 100, 0}, Case{61, 3, 5, 4}, Case{29, 1, 0, 3, false, 1}, Case{64, 4, 2, 100},
                        Case{61, 2, 4, 1, true}, Case{3, 2, 1, 1}, Case{40, 4, 0, 1}}) {
    const Numbers data(c.size);
    Loader& loader = make(data, c);
    std::int64_t files = c.size;  // in the first epoch all
    for (std::int64_t epoch = 0; epoch < 3; ++epoch, files = c.size - kept(c).kept()) {
      const SampleCounts before = loader.counts();
      const std::int64_t reads = data.reads, moved = check_epoch(loader, c, epoch);
      const SampleCounts after = loader.counts();
      EXPECT_EQ(sum(after.read.files - before.read.files), files) << c.size << ", " << epoch;
      EXPECT_EQ(data.reads - reads, after.read.files - before.read.files) << "the counter is that of the data set";
      EXPECT_EQ(sum(after.received - before.received), moved);
      EXPECT_EQ(sum(after.sent - before.sent), moved);
      const auto of_tier = [&](std::int64_t SampleCache::Counts::* tier) {
        return sum(after.read.*tier - before.read.*tier);
      };
      EXPECT_EQ(of_tier(&SampleCache::Counts::memory) + of_tier(&SampleCache::Counts::disk), c.size - files);
      if (epoch > 0 && c.disk == 0) {
        EXPECT_EQ(of_tier(&SampleCache::Counts::disk), 0);
      }
    }
  }
}

TEST_F(SampleCacheTest, GivesTheSamplesOfTheirPlaces) {
  const Case c{50, 2, 6, 2, true};
  const Numbers data(c.size);
  Loader& loader = make(data, c);
  Loader plain(data, {.batch = c.batch, .rank = rank(), .ranks = size(), .seed = seed});
  for (const std::int64_t first : {0, 17}) {
    loader.start_epoch(4, first);
    plain.start_epoch(4, first);
    while (const Batch* want = plain.next()) {
      const Batch* b = loader.next();
      ASSERT_NE(b, nullptr);
      ASSERT_EQ(b->count, want->count);
      EXPECT_TRUE(std::equal(b->indices, b->indices + b->count, want->indices));
    }
  }
}

/// In the order of the data set nothing needs to be sent: each rank keeps of what it computes in every epoch.
TEST_F(SampleCacheTest, KeepsWhatTheRankComputes) {
  const Numbers data(43);
  const std::int64_t bytes = data.stored_bytes();
  LoaderOptions o{.batch = 3, .rank = rank(), .ranks = size(), .shuffle = false};
  o.cache = {.memory = 4 * (bytes + 1), .disk = 2 * bytes + 1, .folder = path_};
  Loader loader(data, o);
  const std::int64_t kept = CachedSamples{data.size(), size(), 4, 2, 3}.kept();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const SampleCounts before = loader.counts();
    loader.start_epoch(epoch);
    for (std::int64_t first = 3 * rank(); const Batch* b = loader.next(); first += 3 * size())
      for (std::int64_t i = 0; i < b->count; ++i) {
        ASSERT_EQ(b->indices[i], first + i);
        EXPECT_EQ(static_cast<const float*>(b->fields[0])[i * values], Numbers::value(first + i, 0));
      }
    const SampleCounts after = loader.counts();
    EXPECT_EQ(sum(after.read.files - before.read.files), data.size() - (epoch > 0 ? kept : 0));
    EXPECT_EQ(sum(after.read.memory + after.read.disk - before.read.memory - before.read.disk), epoch > 0 ? kept : 0);
    EXPECT_EQ(after.sent + after.received, 0);
  }
  const CacheOptions left = loader.cache_left();
  EXPECT_LE(left.memory, 4 * (bytes + 1));
  EXPECT_EQ(sum((4 * (bytes + 1) - left.memory) / (bytes + 1) + (2 * bytes + 1 - left.disk) / bytes), kept);
}

/// Two ranks are on each node, and each node has copies of a part of the files.
class CopiedSamplesTest : public SampleCacheTest {
 protected:
  static constexpr std::int64_t samples = 47, files = 16, batch = 2;
  struct Copies {
    StageMode mode;
    std::int64_t memory;  ///< samples that a rank can keep
    bool keep_places;
  };

  static int place_of(int rank) { return rank / 2; }
  StagePlan plan(const Copies& c) const { return {files, c.mode, 5, 7, (size() + 1) / 2}; }
  Loader& make_with_copies(Numbers& data, const Copies& c) {
    loader_.reset();
    peers_ = world().split(0, rank());
    data.copies = std::make_shared<const FileCopies>(FileCopies{"", plan(c), place_of(rank()), 0});
    data.all_are_copied = c.mode == StageMode::shard;
    LoaderOptions o{.batch = batch, .rank = rank(), .ranks = size(), .seed = seed};
    o.cache = {.memory = c.memory * (data.stored_bytes() + 1), .copies = data.copies};
    o.peers = peers_.get();
    o.keep_places = c.keep_places;
    return loader_.emplace(data, o);
  }
  /// Runs an epoch, whose steps must have the samples of the epoch's order.
  void check_samples(Loader& loader, std::int64_t epoch, bool keep_places) const {
    const EpochOrder order(samples, seed, epoch);
    loader.start_epoch(epoch);
    for (std::int64_t begin = 0; const Batch* b = loader.next(); begin += batch * size()) {
      std::string mine;
      for (std::int64_t i = 0; i < b->count; ++i) {
        if (keep_places) {
          EXPECT_EQ(b->indices[i], order[begin + rank() * batch + i]);
        }
        EXPECT_EQ(static_cast<const float*>(b->fields[0])[i * values + 1], Numbers::value(b->indices[i], 1));
        mine += std::to_string(b->indices[i]) + ' ';
      }
      std::multiset<std::int64_t> seen, want;
      for (const std::string& of_rank : world().allgather(mine)) {
        std::istringstream numbers(of_rank);
        for (std::int64_t n; numbers >> n;) seen.insert(n);
      }
      for (std::int64_t i = begin; i < std::min(begin + batch * size(), samples); ++i) want.insert(order[i]);
      EXPECT_EQ(seen, want);
    }
  }
  /// The samples of an epoch that the ranks of their place have no room for.
  std::int64_t excess(const StagePlan& plan, std::int64_t epoch) const {
    const EpochOrder order(samples, seed, epoch);
    std::int64_t all = 0;
    for (std::int64_t begin = 0; begin < samples; begin += batch * size()) {
      const GlobalBatch global{std::min(samples - begin, batch * size()), batch};
      std::map<int, std::int64_t> over;
      for (int r = 0; r < size(); ++r) over[place_of(r)] -= global.count_of(r);
      for (std::int64_t i = begin; i < begin + global.count; ++i) ++over[plan.owner(order[i] / Numbers::per_file)];
      for (const auto& [place, n] : over) all += std::max<std::int64_t>(n, 0);
    }
    return all;
  }
};

TEST_F(CopiedSamplesTest, AreReadWhereTheyAre) {
  if (size() == 1) return;
  for (const Copies& c :
       {Copies{StageMode::shard, 0, false}, Copies{StageMode::shard, 0, true}, Copies{StageMode::shard, 3, false},
        Copies{StageMode::shard, 100, true}, Copies{StageMode::sample, 0, false}, Copies{StageMode::sample, 3, true},
        Copies{StageMode::sample, 100, false}}) {
    Numbers data(samples);
    Loader& loader = make_with_copies(data, c);
    std::int64_t without_copy = 0;
    for (std::int64_t i = 0; i < samples; ++i) without_copy += plan(c).owner(i / Numbers::per_file) < 0;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const SampleCounts before = loader.counts();
      check_samples(loader, epoch, c.keep_places);
      const SampleCounts after = loader.counts();
      const auto of_tier = [&](std::int64_t SampleCache::Counts::* tier) {
        return sum(after.read.*tier - before.read.*tier);
      };
      const std::int64_t from_memory = of_tier(&SampleCache::Counts::memory);
      const std::int64_t kept = epoch > 0 ? c.memory * size() : 0;
      EXPECT_EQ(of_tier(&SampleCache::Counts::files), std::max<std::int64_t>(without_copy - kept, 0));
      EXPECT_EQ(of_tier(&SampleCache::Counts::copies) + of_tier(&SampleCache::Counts::files) + from_memory, samples);
      EXPECT_EQ(from_memory > 0, kept > 0) << epoch;
      const std::int64_t sent = sum(after.sent - before.sent);
      EXPECT_EQ(sum(after.received - before.received), sent);
      if (c.mode == StageMode::shard && !c.keep_places) {
        EXPECT_EQ(sent, excess(plan(c), epoch));
      }
    }
  }
}

/// Also samples that were on the way when an epoch is left.
TEST_F(SampleCacheTest, LeavesAnEpochAnywhere) {
  const Case c{64, 2, 100, 0};
  const Numbers data(c.size);
  Loader& loader = make(data, c);
  for (const int steps : {0, 1, 3}) {
    loader.start_epoch(steps);
    for (int i = 0; i < steps; ++i) EXPECT_NE(loader.next(), nullptr);
    check_epoch(loader, c, 7, 5);
  }
}

/// A sample that cannot be read fails on the rank that keeps it and on the rank that computes it, in its step.
TEST_F(SampleCacheTest, SaysWhichSampleIsBad) {
  const Case c{64, 1, 100, 0};
  Numbers data(c.size);
  data.bad = EpochOrder(c.size, seed, 0)[4L * size() + size() - 1];  // in step 4
  Loader& loader = make(data, c);
  loader.start_epoch(0);
  for (int i = 0; i < 4; ++i) EXPECT_NE(loader.next(), nullptr);
  std::string said;
  try {
    loader.next();
  } catch (const Error& e) {
    said = e.what();
  }
  int reasons = 0;
  for (const std::string& text : world().allgather(said)) {
    const bool reason = text == "sample " + std::to_string(data.bad) + " is bad";
    reasons += reason;
    EXPECT_TRUE(reason || text.empty() || text.find("could not be read by rank") != std::string::npos) << text;
  }
  EXPECT_EQ(reasons, 1);
  loader_.reset();  // in the middle of an epoch its threads still read the data, which end here
}

TEST_F(SampleCacheTest, RefusesFoldersWithoutRoom) {
  const Numbers data(8);
  path_ = "/proc/none";
  try {
    make(data, {.size = 8, .batch = 1, .memory = 0, .disk = 8});
    ADD_FAILURE();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("/proc/none: no file for the cache can be made"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace keelson::testing
