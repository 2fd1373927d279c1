#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/allreduce/algorithm.hpp"
#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

using Floats = std::vector<float>;

/// An algorithm, and how many ranks stand for a node.
struct Way {
  const char* algorithm;
  const char* node_ranks;
};

/// Every algorithm of KEELSON_ALLREDUCE, within a node and between nodes that are parts of this one.
class AllreduceTest : public MpiTest, public ::testing::WithParamInterface<Way> {
 protected:
  AllreduceTest() {
    setenv("KEELSON_ALLREDUCE", GetParam().algorithm, 1);
    setenv("KEELSON_NODE_RANKS", GetParam().node_ranks, 1);
    group = world().split(0, rank());
  }
  ~AllreduceTest() override {
    unsetenv("KEELSON_ALLREDUCE");
    unsetenv("KEELSON_NODE_RANKS");
  }
  /// Whether this algorithm can sum with this group's ranks.
  bool possible(Wire wire) const {
    const int node = std::atoi(GetParam().node_ranks), nodes = (size() + node - 1) / node;
    return comm::detail::is_supported(comm::detail::AllreduceAlgorithm::parse(GetParam().algorithm),
                                      {size(), nodes, node > 1, wire});
  }
  static float term(int rank, int step, std::size_t i) {
    return static_cast<float>((i * 7 + static_cast<std::size_t>(step)) % 1021) * static_cast<float>(rank + 1);
  }
  /// Rank 0's term is in the sum this many times.
  float times() const { return static_cast<float>(size() * (size() + 1) / 2); }  // NOLINT(bugprone-integer-division)
  Floats terms(std::size_t count, int step) const {
    Floats v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = term(rank(), step, i);
    return v;
  }
  void put_terms(Floats& to, int step) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = term(rank(), step, i);
  }
  Floats sums(std::size_t count, int step) const {
    Floats v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = term(0, step, i) * times();
    return v;
  }

  std::unique_ptr<Communicator> group;
};

INSTANTIATE_TEST_SUITE_P(Ways, AllreduceTest,
                         ::testing::Values(Way{"mpi", "8"}, Way{"mpi:64K", "8"}, Way{"ring", "8"}, Way{"ring:64K", "8"},
                                           Way{"halving", "8"}, Way{"halving:64K", "8"}, Way{"doubling", "8"},
                                           Way{"doubling:64K", "8"}, Way{"two-level", "8"}, Way{"two-level", "2"},
                                           Way{"two-level", "3"}, Way{"two-level-ring", "2"}),
                         [](const auto& info) {
                           std::string name = std::string(info.param.algorithm) + " " + info.param.node_ranks;
                           for (char& c : name)
                             if (c == ':' || c == '-' || c == ' ') c = '_';
                           return name;
                         });

TEST_P(AllreduceTest, SumsExactly) {
  if (!possible(Wire::fp32)) GTEST_SKIP();
  for (const std::size_t count : {1, 2, 3, 17, 511, 513, 4097, 65536, 300001}) {
    Floats data(count);
    const auto sum = group->make_allreduce(data.data(), count, "sums");
    for (int step = 0; step < 3; ++step) {
      put_terms(data, step);
      sum->start();
      sum->wait();
      EXPECT_EQ(data, sums(count, step)) << count;
    }
  }
}

TEST_P(AllreduceTest, SumsHundredMegabytes) {
  if (!possible(Wire::fp32)) GTEST_SKIP();
  const std::size_t count = 25'000'001;
  Floats data = terms(count, 0);
  const auto sum = group->make_allreduce(data.data(), count, "sums");
  sum->start();
  sum->wait();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += data[i] != term(0, 0, i) * times() ? 1 : 0;
  EXPECT_EQ(wrong, 0U);
}

TEST_P(AllreduceTest, ManyAreUnderWay) {
  if (!possible(Wire::fp32)) GTEST_SKIP();
  const std::vector<std::size_t> counts{100'000, 3, 70'000, 1, 260'000, 12};
  std::vector<Floats> data(counts.size());
  std::vector<std::unique_ptr<Collective>> all;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    data[a].resize(counts[a]);
    all.push_back(group->make_allreduce(data[a].data(), counts[a], "array " + std::to_string(a)));
  }
  for (int step = 0; step < 4; ++step) {
    for (std::size_t a = 0; a < counts.size(); ++a) {
      put_terms(data[a], step);
      all[a]->start();
      for (int n = 0; n < 5 * rank(); ++n) group->progress().advance();
    }
    if (step == 1) world().barrier();  // of another group: this rank's share goes on
    // Ranks wait in different orders.
    for (std::size_t n = 0; n < all.size(); ++n) all[rank() % 2 == 0 ? n : all.size() - 1 - n]->wait();
    for (std::size_t a = 0; a < counts.size(); ++a) EXPECT_EQ(data[a], sums(counts[a], step)) << counts[a];
  }
}

TEST_P(AllreduceTest, AThreadBesideDoesItAll) {
  if (!possible(Wire::fp32)) GTEST_SKIP();
  if (!group->progress().use_thread(true, {})) GTEST_SKIP() << "no such thread here";
  constexpr std::size_t count = 300001;
  Floats data(count);
  const auto sum = group->make_allreduce(data.data(), count, "sums");
  for (int step = 0; step < 3; ++step) {
    put_terms(data, step);
    const Floats wanted = sums(count, step);
    sum->start();
    const auto begin = std::chrono::steady_clock::now();
    // No call of the group but these: this thread has other things to do.
    for (bool there = false; !there && std::chrono::steady_clock::now() - begin < std::chrono::minutes(2);) {
      const bool lent = group->progress().resume_thread();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      group->progress().pause_thread();
      there = data == wanted;
      EXPECT_TRUE(lent || there);
    }
    EXPECT_EQ(data, wanted);
    sum->wait();
  }
  EXPECT_TRUE(group->progress().use_thread(false, {}));
  EXPECT_FALSE(group->progress().resume_thread());
}

TEST_P(AllreduceTest, WorksInPartsOfParts) {
  if (!possible(Wire::fp32)) GTEST_SKIP();
  const auto half = group->split(rank() % 2, -rank());
  const auto alone = half->split(half->rank(), 0);
  Floats of_half = terms(5000, 0), of_one = terms(5000, 0), of_all = terms(5000, 0);
  const auto a = half->make_allreduce(of_half.data(), 5000, "half"),
             b = alone->make_allreduce(of_one.data(), 5000, "one"),
             c = group->make_allreduce(of_all.data(), 5000, "all");
  for (const auto* each : {&a, &b, &c}) (*each)->start();
  for (const auto* each : {&c, &a, &b}) (*each)->wait();
  EXPECT_EQ(of_one, terms(5000, 0));
  EXPECT_EQ(of_all, sums(5000, 0));
  float ranks = 0;
  for (int r = rank() % 2; r < size(); r += 2) ranks += static_cast<float>(r + 1);
  for (std::size_t i = 0; i < of_half.size(); ++i) EXPECT_EQ(of_half[i], term(0, 0, i) * ranks);
}

/// In 16 bits, all ranks get the same numbers, near the sums; what is lost in one step comes in the next ones, so that
/// the mean over steps comes nearer and nearer.
TEST_P(AllreduceTest, FewerBitsLoseNothingForGood) {
  const std::size_t count = 3001;
  for (const Wire wire : {Wire::bf16, Wire::fp16}) {
    if (!possible(wire)) continue;
    Floats data(count), total(count), mine(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = std::sin(static_cast<float>(i) + static_cast<float>(rank()));
    Floats exact = mine;
    const auto reference = world().make_allreduce(exact.data(), count, "reference");
    reference->start();
    reference->wait();
    CollectiveDesc desc{.src = data.data(),
                        .dst = data.data(),
                        .count = count,
                        .element = CollectiveDesc::Element::f32,
                        .label = "sums",
                        .wire = wire};
    const auto sum = group->make_collective(desc);
    constexpr int steps = 64;
    double first_error = 0, mean_error = 0;
    for (int step = 0; step < steps; ++step) {
      std::copy(mine.begin(), mine.end(), data.begin());
      sum->start();
      sum->wait();
      for (std::size_t i = 0; i < count; ++i) total[i] += data[i];
      Floats of_first = data;
      group->broadcast(of_first.data(), count * sizeof(float), 0);
      EXPECT_EQ(data, of_first) << "ranks differ";
      if (step == 0)
        for (std::size_t i = 0; i < count; ++i) first_error += std::abs(data[i] - exact[i]);
    }
    for (std::size_t i = 0; i < count; ++i) mean_error += std::abs(total[i] / steps - exact[i]);
    const double unit = wire == Wire::bf16 ? 0x1p-8 : 0x1p-11;
    EXPECT_LE(first_error, static_cast<double>(count) * 4 * size() * unit);
    EXPECT_LE(mean_error, first_error / 8 + static_cast<double>(count) * 1e-6);
  }
}

/// With algorithms that are timed.
class AllreduceChoice : public MpiTest {
 protected:
  AllreduceChoice() {
    setenv("KEELSON_TUNE", "on", 1);
    setenv("KEELSON_CACHE", (::testing::TempDir() + "allreduce-choice").c_str(), 1);
    group = world().split(0, rank());
  }
  ~AllreduceChoice() override {
    setenv("KEELSON_TUNE", "off", 1);
    unsetenv("KEELSON_CACHE");
    unsetenv("KEELSON_ALLREDUCE");
  }
  std::unique_ptr<Communicator> group;
};

TEST_F(AllreduceChoice, RefusesUnknownAlgorithms) {
  KEELSON_NEED_RANKS(2);
  float data = 0;
  setenv("KEELSON_ALLREDUCE", "rings", 1);
  EXPECT_THROW(group->make_allreduce(&data, 1, "sum"), InputError);
}

TEST_F(AllreduceChoice, IsTheSameOnAllRanksAndIsKept) {
  KEELSON_NEED_RANKS(2);
  for (const std::size_t bytes : {4, 40'000, 4'000'000}) {
    const std::string choice = comm::allreduce_algorithm(*group, bytes);
    EXPECT_EQ(group->allgather(choice), std::vector<std::string>(static_cast<std::size_t>(size()), choice));
    EXPECT_NO_THROW(comm::detail::AllreduceAlgorithm::parse(choice));
    const auto later = world().split(0, rank());
    EXPECT_EQ(comm::allreduce_algorithm(*later, bytes), choice) << "the file was not used";
  }
}

TEST_F(AllreduceChoice, TimesEveryAlgorithm) {
  KEELSON_NEED_RANKS(2);
  const auto times = comm::time_allreduces(*group, 1 << 20);
  EXPECT_GE(times.size(), 4U);
  int blocking = 0;
  for (const auto& t : times) {
    EXPECT_GT(t.seconds, 0);
    blocking += t.blocking ? 1 : 0;
  }
  EXPECT_EQ(blocking, 1);
}

}  // namespace
}  // namespace keelson::testing
