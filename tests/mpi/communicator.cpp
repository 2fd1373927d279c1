#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

class CommunicatorTest : public MpiTest {};

TEST_F(CommunicatorTest, KnowsItsRanksAndNodes) {
  const auto hosts = world().allgather(world().host());
  EXPECT_EQ(hosts.size(), static_cast<std::size_t>(size()));
  EXPECT_EQ(hosts[static_cast<std::size_t>(rank())], world().host());
  // The tests run on one machine.
  EXPECT_EQ(world().local_rank(), rank());
  EXPECT_EQ(world().local_size(), size());
  EXPECT_EQ(world().node(), 0);
  EXPECT_EQ(world().nodes(), 1);
}

// So a program whose rank dies early says so itself. With MPI's own handler this call would abort the test.
TEST_F(CommunicatorTest, ErrorsOfTheWholeWorldAreReturned) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) GTEST_SKIP() << "one rank without MPI";
  const int nobody = size();
  EXPECT_NE(MPI_Send(nullptr, 0, MPI_INT, nobody, 0, MPI_COMM_WORLD), MPI_SUCCESS);
}

TEST_F(CommunicatorTest, ReducesEveryType) {
  const double n = size();
  std::vector<double> d{1.0 + rank(), -1.0 * rank()};
  world().allreduce(d.data(), 2, Reduction::sum);
  EXPECT_EQ(d, (std::vector<double>{n * (n + 1) / 2, -n * (n - 1) / 2}));
  std::vector<std::int64_t> i{rank(), (std::int64_t{1} << 60) + rank()};
  world().allreduce(i.data(), 2, Reduction::max);
  EXPECT_EQ(i, (std::vector<std::int64_t>{size() - 1, (std::int64_t{1} << 60) + size() - 1}));
  world().allreduce(i.data(), 0, Reduction::max);
  std::vector<float> f{10.0f - static_cast<float>(rank())};
  world().allreduce(f.data(), 1, Reduction::min);
  EXPECT_EQ(f[0], 11.0f - static_cast<float>(size()));
}

TEST_F(CommunicatorTest, BroadcastsFromEveryRoot) {
  for (int root = 0; root < size(); ++root) {
    std::string text = rank() == root ? "from " + std::to_string(root) : "......";
    world().broadcast(text.data(), text.size(), root);
    EXPECT_EQ(text, "from " + std::to_string(root));
  }
  world().broadcast(nullptr, 0, 0);
  char byte = 0;
  EXPECT_THROW(world().broadcast(&byte, 1, size()), Error);
}

TEST_F(CommunicatorTest, GathersTextsOfAnyLength) {
  for (const auto& text : world().allgather("")) EXPECT_EQ(text, "");
  const auto texts = world().allgather(std::string(static_cast<std::size_t>(rank()) * 1000, 'a'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(size()));
  for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r * 1000, 'a'));
}

TEST_F(CommunicatorTest, GathersUnequalCounts) {
  for (int root = 0; root < size(); ++root) {
    // Rank 0 has nothing to give.
    const auto all =
        world().gather(std::vector<float>(static_cast<std::size_t>(rank()), static_cast<float>(rank())), root);
    std::vector<float> expected;
    for (int r = 0; r < size(); ++r)
      expected.insert(expected.end(), static_cast<std::size_t>(r), static_cast<float>(r));
    EXPECT_EQ(all, rank() == root ? expected : std::vector<float>{});
  }
}

TEST_F(CommunicatorTest, SplitsIntoGroups) {
  const auto half = world().split(rank() % 2, -rank());  // the key turns the order round
  ASSERT_NE(half, nullptr);
  const int members = (size() + 1 - rank() % 2) / 2;
  EXPECT_EQ(half->size(), members);
  EXPECT_EQ(half->rank(), members - 1 - rank() / 2);
  std::int64_t sum = rank();
  half->allreduce(&sum, 1, Reduction::sum);
  std::int64_t expected = 0;
  for (int r = rank() % 2; r < size(); r += 2) expected += r;
  EXPECT_EQ(sum, expected);

  const auto but_last = world().split(rank() == size() - 1 ? -1 : 0, rank());
  EXPECT_EQ(but_last == nullptr, rank() == size() - 1);
  if (but_last) {
    EXPECT_EQ(but_last->size(), size() - 1);
  }
}

TEST_F(CommunicatorTest, SumsOverAndOver) {
  std::vector<float> data(1000);
  const auto sum = world().make_allreduce(data.data(), data.size(), "data");
  EXPECT_TRUE(sum->test());  // never started
  for (int step = 0; step < 5; ++step) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(step + rank()) + static_cast<float>(i);
    sum->start();
    sum->wait();
    sum->wait();
    EXPECT_TRUE(sum->test());
    const auto n = static_cast<float>(size());
    for (std::size_t i = 0; i < data.size(); ++i)
      ASSERT_EQ(data[i], n * (static_cast<float>(step) + static_cast<float>(i)) + n * (n - 1) / 2);
  }
}

TEST_F(CommunicatorTest, OverlapsReductions) {
  // Large and small ones together, waited for in another order than started.
  const std::vector<std::size_t> counts{3, 300000, 1, 0, 70000};
  std::vector<std::vector<double>> data;
  std::vector<std::unique_ptr<Collective>> sums;
  for (std::size_t count : counts) {
    data.emplace_back(count, rank() + 1.0);
    sums.push_back(world().make_allreduce(data.back().data(), count, "bucket " + std::to_string(sums.size())));
  }
  for (const auto& sum : sums) {
    sum->start();
    world().progress().advance();
  }
  for (int i = 0; i < 100; ++i) world().progress().advance();
  while (!sums[1]->test()) world().progress().advance();
  for (std::size_t i = sums.size(); i-- > 0;) sums[i]->wait();
  world().progress().advance();  // nothing is under way
  for (const auto& d : data)
    for (double value : d) ASSERT_EQ(value, size() * (size() + 1) / 2);
}

TEST_F(CommunicatorTest, ProgressAloneCompletes) {
  std::vector<float> data(200000, 1.0f);
  const auto sum = world().make_allreduce(data.data(), data.size(), "data");
  sum->start();
  world().barrier();  // all have started
  for (int i = 0; i < 1000000 && data.back() != static_cast<float>(size()); ++i) world().progress().advance();
  EXPECT_TRUE(size() == 1 || data.back() == static_cast<float>(size()));
  sum->wait();
}

TEST_F(CommunicatorTest, SumsToTheSameBits) {
  std::vector<float> first, data(5000);
  const auto sum = world().make_allreduce(data.data(), data.size(), "data");
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(rank() + 1));
    sum->start();
    sum->wait();
    if (repeat == 0) first = data;
    EXPECT_EQ(std::memcmp(first.data(), data.data(), data.size() * sizeof(float)), 0);
    // ... and on every rank.
    auto of_root = data;
    world().broadcast(of_root.data(), of_root.size() * sizeof(float), 0);
    EXPECT_EQ(std::memcmp(of_root.data(), data.data(), data.size() * sizeof(float)), 0);
  }
}

TEST_F(CommunicatorTest, ComparesHashes) {
  EXPECT_NO_THROW(compare_hash(world(), 0xfedcba9876543210u, "plans"));
  KEELSON_NEED_RANKS(2);
  const int odd = size() - 1;
  try {
    compare_hash(world(), rank() == odd ? 7u : 0xfedcba9876543210u, "plans");
    ADD_FAILURE() << "different hashes were accepted";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("different plans"), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(odd) + " (" + world().host() + ") differs"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace keelson::testing
