#include "apps/bench/scale/programs.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "apps/bench/networks.hpp"
#include "apps/bench/scale/space_parts.hpp"
#include "apps/bench/scale/stages.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

using Kind = RankEvent::Kind;

PlanRow grid_row(const std::string& phase, const std::string& node, double ms, std::size_t gradient_bytes = 0) {
  PlanRow r;
  r.phase = phase;
  r.node = node;
  r.op = gradient_bytes > 0 ? "conv bwd weights" : "conv";
  r.milliseconds = ms;
  r.gradient_bytes = gradient_bytes;
  return r;
}

/// A step of `mlperf` in which a convolution takes 8 ms forward and 16 ms backward, and the dense layers 4 ms.
StepProfile mlperf_profile(const std::string& size) {
  std::vector<PlanRow> rows;
  for (int i = 1; i <= 5; ++i) rows.push_back(grid_row("forward", fmt::format("conv{}", i), 8));
  rows.push_back(grid_row("forward", "dense1", 4));
  rows.push_back(grid_row("backward", "dense1", 4, 4000));
  for (int i = 5; i >= 1; --i) {
    rows.push_back(grid_row("backward", fmt::format("conv{}", i), 8, 1000));
    rows.push_back(grid_row("backward", fmt::format("conv{}", i), 8));
  }
  rows.push_back(grid_row("update", "conv1/weights", 9));
  StepProfile p = profile_of(rows, "a step");
  p.net = "mlperf";
  p.size = size;
  return p;
}

std::vector<RankProgram> programs(const StepProfile& profile, const ScaleGrid& grid,
                                  const ExchangeSettings& exchange = {}) {
  return grid_programs(profile, grid, make_machine("cluster"), exchange);
}

struct SentBytes {
  std::size_t bytes = 0, messages = 0;
};

SentBytes sent(const RankProgram& p) {
  SentBytes sum;
  for (const auto& e : p.events)
    if (e.kind == Kind::send) sum = {sum.bytes + e.bytes, sum.messages + 1};
  return sum;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(ScaleGrid, SaysWhatItReads) {
  const auto grid = parse_grid("data 512 x space 4x4 x stage 2");
  EXPECT_EQ(grid.describe(), "data 512 x space 4x4 x stage 2");
  EXPECT_EQ(grid.replica(), 32);
  EXPECT_EQ(grid.ranks(), 16384);
  EXPECT_EQ(parse_grid("space 4").for_ranks(12).describe(), "data 3 x space 4");
  EXPECT_EQ(parse_grid("data").for_ranks(3).describe(), "data 3");
}

TEST(ScaleGrid, RefusesOtherGridsAndOtherRanks) {
  for (const char* text : {"", "data 0", "data 2 x data 2", "space 2x2x2", "space", "planet 4", "channel 2"})
    EXPECT_NE(refusal([&] { parse_grid(text); }).find("xpected"), std::string::npos) << text;
  EXPECT_EQ(refusal([] { parse_grid("space 4").for_ranks(6); }),
            "6 ranks, but space 4 x stage 1 takes multiples of 4: give --ranks 8");
  EXPECT_NE(refusal([] { parse_grid("data 2 x space 4").for_ranks(12); }).find("has 8"), std::string::npos);
}

/// Numbers from the sizes of the network's values: a row of conv1's result (64^3 cells, 32 channels) is 524,288 bytes,
/// and of the next ones half of the one before. conv5 and dense1 are computed by channels: all ranks gather the values
/// of conv4 (8^3 cells, 256 channels), of conv5 (4^3 cells, 512 channels) and of dense1.
TEST(GridPrograms, RowsAndChannelsOfMlperfInFourParts) {
  const auto ranks = programs(mlperf_profile("128"), {.data = 1, .space = {4}});
  ASSERT_EQ(ranks.size(), 4u);
  constexpr std::size_t one_side = 524288 + 262144 + 131072, gathered = (524288 + 131072 + 512) / 4;
  EXPECT_EQ(sent(ranks[0]).bytes, 2 * one_side + 6 * gathered);
  EXPECT_EQ(sent(ranks[1]).bytes, 4 * one_side + 6 * gathered);
  EXPECT_EQ(sent(ranks[1]).messages, 6u + 6u + 18u);
  std::size_t gradients = 0;
  for (const std::size_t bytes : ranks[1].buckets) gradients += bytes;
  EXPECT_EQ(gradients, 4000u / 4 + 1000 / 4 + 4 * 1000) << "dense1, conv5, the other convolutions";
  EXPECT_NEAR(ranks[1].update, 0.009 * gradients / 9000, 1e-9);
}

/// A published program that copies gradients computes deep layers by rows, and dense layers whole.
TEST(GridPrograms, RowsOfMlperfInFourParts) {
  const auto ranks = programs(mlperf_profile("128"), {.data = 1, .space = {4}}, {.copies = true});
  ASSERT_EQ(ranks.size(), 4u);
  constexpr std::size_t one_side = 524288 + 262144 + 131072 + 65536, gathered = 131072 / 4;
  EXPECT_EQ(sent(ranks[0]).bytes, 2 * one_side + 6 * gathered);
  EXPECT_EQ(sent(ranks[1]).bytes, 4 * one_side + 6 * gathered);
  EXPECT_EQ(sent(ranks[1]).messages, 8u + 8u + 6u);
  std::size_t all = 0;
  for (const auto& p : ranks) all += sent(p).bytes;
  EXPECT_EQ(all, 11796480u + 4 * 6 * gathered);
}

/// Each rank updates its part of the parameters of conv5 and dense1, which have 5 of 9 parts of the gradients.
TEST(GridPrograms, ConvolutionsAndDeepLayersShrink) {
  const auto profile = mlperf_profile("128");
  const double whole = programs(profile, {.data = 1})[0].computing();
  EXPECT_DOUBLE_EQ(whole, 0.137);
  for (const auto& p : programs(profile, {.data = 1, .space = {4}}))
    EXPECT_NEAR(p.computing(), 0.128 / 4 + 0.004 + 0.005 / 4, 1e-9);
  for (const auto& p : programs(profile, {.data = 1, .space = {4, 2}}))
    EXPECT_NEAR(p.computing(), 0.128 / 8 + 0.004 + 0.005 / 8, 1e-9);
}

TEST(GridPrograms, EverySendHasAReceive) {
  const ScaleGrid grid{.data = 1, .space = {3, 2}, .stages = 2, .micro_batches = 2};
  const auto ranks = programs(mlperf_profile("64").with_samples(4), grid);
  ASSERT_EQ(ranks.size(), 12u);
  std::map<std::pair<int, int>, std::vector<std::size_t>> sends, receives;
  for (int r = 0; r < 12; ++r)
    for (const auto& e : ranks[static_cast<std::size_t>(r)].events) {
      if (e.kind == Kind::send) sends[{r, r + e.peer}].push_back(e.bytes);
      if (e.kind == Kind::receive) receives[{r + e.peer, r}].push_back(e.bytes);
    }
  EXPECT_EQ(sends, receives);
}

/// The inner rank of blocks: rows along the second dimension include the two that have come along the first.
TEST(ShareNodes, BlocksOfWholeUniverses) {
  const auto net = make_network("mlperf", "512");
  const auto fused = fuse(net.graph, {});
  const auto shares = share_nodes(net.graph, fused, {4, 4}, "mlperf");
  ASSERT_EQ(shares.size(), 16u);
  const auto conv2 =
      std::find_if(fused.nodes.begin(), fused.nodes.end(), [](const auto& n) { return n.name == "conv2"; });
  const auto& node = shares[5][static_cast<std::size_t>(conv2 - fused.nodes.begin())];
  EXPECT_DOUBLE_EQ(node.share, 1.0 / 16);
  ASSERT_EQ(node.exchanges.size(), 2u);
  ASSERT_EQ(node.exchanges[0].sends.size(), 2u);
  EXPECT_EQ(node.exchanges[0].sends[0].bytes, 64u * 256 * 32 * 4);
  EXPECT_EQ(node.exchanges[0].sends[0].peer, 1);
  EXPECT_EQ(node.exchanges[1].sends[0].bytes, 66u * 256 * 32 * 4);
  EXPECT_EQ(node.exchanges[1].sends[0].peer, 4);
  EXPECT_TRUE(node.exchanges[1].sends[0].packed);
}

/// conv5 of 64^3 has 4 rows, pooled to 2, and the rank that owns none computes a row of its neighbour again.
TEST(ShareNodes, RanksWithoutRowsComputeOneOfTheirNeighbour) {
  const auto net = make_network("mlperf", "64");
  const auto fused = fuse(net.graph, {});
  const auto shares = share_nodes(net.graph, fused, {4}, "mlperf", false);
  const auto conv5 =
      std::find_if(fused.nodes.begin(), fused.nodes.end(), [](const auto& n) { return n.name == "conv5"; });
  for (const auto& rank : shares)
    EXPECT_DOUBLE_EQ(rank[static_cast<std::size_t>(conv5 - fused.nodes.begin())].share, 0.5);
}

TEST(ShareNodes, SharesAddUp) {
  for (const char* name : {"mlperf", "paper", "deepcam", "tiramisu"}) {
    const auto net = make_network(name, "");
    const auto fused = fuse(net.graph, {});
    for (const std::vector<int>& space : {std::vector{3}, std::vector{2, 2}}) {
      if (std::ssize(space) > 1 && net.graph.nodes()[0].shape.shape.rank() < 5) continue;  // blocks are for volumes
      const auto shares = share_nodes(net.graph, fused, space, name);
      std::size_t cut = 0;
      for (std::size_t i = 0; i < fused.nodes.size(); ++i) {
        double sum = 0;
        for (const auto& rank : shares) sum += rank[i].share;
        const bool whole =
            std::all_of(shares.begin(), shares.end(), [&](const auto& rank) { return rank[i].share == 1; });
        if (whole) continue;
        ++cut;
        const double excess = sum - std::round(sum);  // of 1, or of 2 where the value is whole along a dimension
        EXPECT_GE(excess, -1e-9) << name << " " << fused.nodes[i].name;
        EXPECT_LT(excess, 0.13) << name << " " << fused.nodes[i].name;  // a row that a rank without rows computes
      }
      EXPECT_GT(cut, 5u) << name;
    }
  }
}

TEST(ShareNodes, RefusesMorePartsThanRows) {
  const auto net = make_network("mlperf", "32");
  const auto fused = fuse(net.graph, {});
  EXPECT_NE(refusal([&] { share_nodes(net.graph, fused, {33}, "mlperf"); }).find("has 32 rows"), std::string::npos);
  const auto words = make_network("lstm-small", "");
  EXPECT_NE(
      refusal([&] { share_nodes(words.graph, fuse(words.graph, {}), {2}, "lstm-small"); }).find("leave --spatial out"),
      std::string::npos);
}

TEST(GridPrograms, HiddenRowsTravelBesideComputations) {
  const ScaleGrid grid{.data = 1, .space = {2}};
  const auto computes_in_flight = [&](bool hide) {
    const auto ranks = programs(mlperf_profile("64"), grid, {.hide_rows = hide});
    double seconds = 0;
    int in_flight = 0;
    for (const auto& e : ranks[0].events) {
      in_flight += (e.kind == Kind::send || e.kind == Kind::receive) - (e.kind == Kind::wait);
      if (e.kind == Kind::compute && in_flight > 0) seconds += e.seconds;
    }
    EXPECT_NEAR(ranks[0].computing(), 0.128 / 2 + 0.003 + 0.006 / 2, 1e-9);
    return seconds;
  };
  // Gradients of weights of conv2 to conv5: 4 ms each. Forward: all but one of 8 and 4 pooled rows of conv2 and conv3;
  // conv4 and conv5 are computed by channels, and read all of their source.
  EXPECT_NEAR(computes_in_flight(false), 4 * 4e-3, 1e-9);
  EXPECT_NEAR(computes_in_flight(true), 4 * 4e-3 + 4e-3 * (7.0 / 8 + 3.0 / 4), 1e-9);
}

TEST(GridPrograms, StagesKeepFewMicroBatchesAlive) {
  constexpr int stages = 3, batches = 8;
  const ScaleGrid grid{.data = 2, .stages = stages, .micro_batches = batches};
  const auto ranks = programs(mlperf_profile("32").with_samples(batches), grid);
  ASSERT_EQ(ranks.size(), 3u);
  for (int stage = 1; stage < stages - 1; ++stage) {
    int alive = 0, most = 0, forward = 0, backward = 0;
    for (const auto& e : ranks[static_cast<std::size_t>(stage)].events) {
      if (e.kind != Kind::send) continue;
      EXPECT_EQ(std::abs(e.peer), 2);  // ranks of a stage are neighbours
      (e.peer > 0 ? forward : backward) += 1;
      alive = forward - backward;
      most = std::max(most, alive);
    }
    EXPECT_EQ(forward, batches);
    EXPECT_EQ(backward, batches);
    EXPECT_EQ(most, std::min(batches, stages - stage));
  }
}

TEST(GridPrograms, GradientsAreCompleteInTheLastMicroBatch) {
  const auto ranks =
      programs(mlperf_profile("32").with_samples(4), {.data = 2, .micro_batches = 4}, {.bucket_bytes = 4500});
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].buckets, (std::vector<std::size_t>{5000, 4000}));
  double before = 0, behind = 0;
  bool seen = false;
  for (const auto& e : ranks[0].events) {
    seen = seen || e.kind == Kind::bucket;
    if (e.kind == Kind::compute) (seen ? behind : before) += e.seconds;
  }
  EXPECT_NEAR(behind, 0.072, 1e-9);  // of the last pass: conv4 to conv1 backward, and conv5's second call
  EXPECT_NEAR(before + behind, 4 * 0.128, 1e-9);
}

TEST(GridPrograms, RefusesMicroBatchesThatDoNotDivideTheSamples) {
  const auto profile = mlperf_profile("32").with_samples(6);
  EXPECT_NE(refusal([&] { programs(profile, {.data = 1, .micro_batches = 4}); }).find("6 samples"), std::string::npos);
  EXPECT_EQ(micro_batches_of(profile, {.data = 1, .stages = 2}), 6);
  EXPECT_EQ(micro_batches_of(profile, {.data = 1}), 1);
  EXPECT_NE(refusal([&] { programs(profile, {.data = 1, .stages = 9}); }).find("has 6 nodes"), std::string::npos);
}

TEST(Stages, TheLongestIsAsShortAsItCanBe) {
  FusedNodes fused;
  std::vector<NodeCost> costs;
  for (const double seconds : {1, 2, 3, 4, 5}) {
    Graph::Node n;
    if (!fused.nodes.empty()) n.srcs = {static_cast<int>(fused.nodes.size()) - 1};
    fused.nodes.push_back(n);
    costs.push_back({.passes = seconds, .update = 0.5, .has_calls = true});
  }
  const auto two = cut_stages(fused, costs, 2);
  EXPECT_EQ(two[0].end, 3);  // 7.5 and 10; the other cuts have 12.5 or more
  EXPECT_EQ(two[0].sent, std::vector<int>{2});
  EXPECT_DOUBLE_EQ(two[1].update, 1);
  const auto three = cut_stages(fused, costs, 3);
  EXPECT_EQ(three[0].end, 3);
  EXPECT_EQ(three[1].end, 4);
  EXPECT_THROW(cut_stages(fused, costs, 6), InputError);
}

TEST(StepProfile, PartsTakeAtLeastAPassOverTheParameters) {
  PlanRow weights = grid_row("backward", "conv1", 10, 8'000'000), reorder = grid_row("forward", "conv1", 2);
  reorder.op = "reorder";
  reorder.megabytes = 16;
  const auto p = profile_of({reorder, weights}, "a step", 4e9);
  EXPECT_DOUBLE_EQ(p.calls[0].on_part(0.1, 0), 0.002);  // of parameters alone
  EXPECT_DOUBLE_EQ(p.calls[1].on_part(0.5, 0), 0.005);
  EXPECT_DOUBLE_EQ(p.calls[1].on_part(0.1, 0), 0.002);
  EXPECT_DOUBLE_EQ(p.calls[1].on_part(0.1, 0.003), 0.003);
  EXPECT_DOUBLE_EQ(p.calls[1].on_part(0, 0.003), 0);
}

TEST(StepProfile, ASmallerStepTellsHowPartsShrink) {
  auto large = profile_of({grid_row("forward", "conv1", 16), grid_row("backward", "conv1", 8, 100)}, "large");
  auto small = profile_of({grid_row("forward", "conv1", 2), grid_row("backward", "conv1", 4, 100)}, "small");
  large.net = small.net = "mlperf";
  large.cells = 64;
  small.cells = 8;
  const auto p = large.with_smaller(small);
  EXPECT_NEAR(p.calls[0].on_part(0.5, 0), 0.008, 1e-12);
  EXPECT_NEAR(p.calls[1].on_part(0.125, 0), 0.004, 1e-12);
  EXPECT_THROW(small.with_smaller(large), InputError);
}

}  // namespace
}  // namespace keelson::bench
