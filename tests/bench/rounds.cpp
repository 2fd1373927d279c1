#include "apps/bench/scale/rounds.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

std::vector<std::vector<Round>> of_all(const std::string& algorithm, int ranks, int ranks_per_node, std::size_t bytes) {
  std::vector<std::vector<Round>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(make_rounds(algorithm, rank, ranks, ranks_per_node, bytes));
  return all;
}

std::size_t total(const std::vector<Round>& rounds, std::size_t Round::* member) {
  return std::accumulate(rounds.begin(), rounds.end(), std::size_t{0},
                         [&](std::size_t sum, const Round& r) { return sum + r.*member; });
}

struct Case {
  std::string algorithm;
  int ranks, ranks_per_node;
};

class AllRounds : public ::testing::TestWithParam<Case> {};

/// What a rank sends to another must be what the other expects, in the same order.
TEST_P(AllRounds, SendsMeetReceives) {
  const auto [algorithm, ranks, ranks_per_node] = GetParam();
  const auto all = of_all(algorithm, ranks, ranks_per_node, 4 * 1001);
  std::map<std::pair<int, int>, std::vector<std::size_t>> sent, received;
  for (int rank = 0; rank < ranks; ++rank)
    for (const Round& r : all[rank]) {
      ASSERT_NE(r.to, rank);
      if (r.to >= 0) sent[{rank, r.to}].push_back(r.sent);
      if (r.from >= 0) received[{r.from, rank}].push_back(r.received);
    }
  EXPECT_EQ(sent, received);
}

/// n - 1 arrays are added to one, wherever that happens, and every rank ends with every element.
TEST_P(AllRounds, AddUpEveryArrayOnce) {
  const auto [algorithm, ranks, ranks_per_node] = GetParam();
  const std::size_t bytes = 4 * 1001;
  std::size_t added = 0, copied = 0;
  for (const auto& rounds : of_all(algorithm, ranks, ranks_per_node, bytes))
    for (const Round& r : rounds) (r.add ? added : copied) += r.received;
  EXPECT_EQ(added, (ranks - 1) * bytes);
  EXPECT_GE(copied, (ranks - 1) * bytes);  // more where a rank acts for two
}

/// Whether the rounds can be run in lockstep of messages, or ranks wait for each other in a circle.
TEST_P(AllRounds, DoNotDeadlock) {
  const auto [algorithm, ranks, ranks_per_node] = GetParam();
  const auto all = of_all(algorithm, ranks, ranks_per_node, 4 * 1001);
  std::vector<std::size_t> at(ranks);
  std::vector<bool> sent(ranks), received(ranks);
  const auto open = [&](int rank) { return at[rank] < all[rank].size() ? &all[rank][at[rank]] : nullptr; };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const Round* r = open(rank);
      if (!r) continue;
      const Round* peer = r->to >= 0 && !sent[rank] ? open(r->to) : nullptr;
      if (peer && peer->from == rank && !received[r->to]) sent[rank] = received[r->to] = moved = true;
      if ((r->to >= 0 && !sent[rank]) || (r->from >= 0 && !received[rank])) continue;
      ++at[rank];
      sent[rank] = received[rank] = false;
      moved = true;
    }
  }
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(at[rank], all[rank].size()) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(All, AllRounds,
                         ::testing::Values(Case{"ring", 1, 1}, Case{"ring", 2, 1}, Case{"ring", 5, 1},
                                           Case{"ring", 16, 4}, Case{"halving", 1, 1}, Case{"halving", 2, 1},
                                           Case{"halving", 3, 1}, Case{"halving", 8, 2}, Case{"halving", 13, 1},
                                           Case{"two-level", 6, 6}, Case{"two-level", 12, 6}, Case{"two-level", 18, 6},
                                           Case{"two-level", 8, 2}, Case{"two-level-ring", 18, 6}));

TEST(Rounds, RingSendsTheLeastThatIsPossible) {
  const auto rounds = make_rounds("ring", 3, 8, 1, 8 * 400);
  EXPECT_EQ(rounds.size(), 14u);
  EXPECT_EQ(total(rounds, &Round::sent), 2u * 7 * 400);
}

TEST(Rounds, HalvingTakesTwiceTheLogarithmOfRounds) {
  const auto rounds = make_rounds("halving", 5, 16, 1, 16 * 400);
  EXPECT_EQ(rounds.size(), 8u);
  EXPECT_EQ(total(rounds, &Round::sent), 2u * 15 * 400);
}

TEST(Rounds, TwoLevelSendsBetweenNodesOnlyItsStripe) {
  std::size_t outside = 0;
  for (const Round& r : make_rounds("two-level", 7, 24, 6, 6 * 4 * 100))
    if (r.to / 6 != 7 / 6) outside += r.sent;
  EXPECT_EQ(outside, 2u * 3 * 100);  // 2 (nodes - 1) / nodes of the stripe
}

TEST(Rounds, RefusesAnUnknownAlgorithm) { EXPECT_THROW(make_rounds("magic", 0, 2, 1, 4), InputError); }

}  // namespace
}  // namespace keelson::bench
