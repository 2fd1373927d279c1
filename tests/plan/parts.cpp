#include "engine/plan/parts.hpp"

#include <gtest/gtest.h>

#include <array>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/spatial_parts.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/environment_variable.hpp"

/// Parts of samples, of all ranks, without ranks: where they begin, and which rows travel.
namespace keelson::testing {
namespace {

using Bounds = std::vector<std::int64_t>;

TEST(PartBounds, AreMultiplesOfTheStridesThatFollow) {
  EXPECT_EQ(part_bounds(128, 4, 32), (Bounds{0, 32, 64, 96, 128}));
  EXPECT_EQ(part_bounds(128, 3, 32), (Bounds{0, 44, 84, 128})) << "multiples of 32 would be too uneven";
  EXPECT_EQ(part_bounds(7, 2, 1), (Bounds{0, 4, 7}));
  EXPECT_EQ(part_bounds(10, 2, 4), (Bounds{0, 5, 10})) << "the last multiple lies beyond the edge";
  EXPECT_EQ(part_bounds(4, 4, 1), (Bounds{0, 1, 2, 3, 4}));
  for (const auto& [extent, parts, unit] : {std::array<int, 3>{60, 16, 4}, {88, 12, 8}, {480, 16, 32}, {768, 26, 32}}) {
    const auto bounds = part_bounds(extent, parts, unit);
    for (std::size_t r = 0; r + 1 < bounds.size(); ++r) EXPECT_LT(bounds[r], bounds[r + 1]) << "no part is empty";
  }
}

/// The layer's part of each rank, from a source with these bounds: rows of the result, and rows read.
struct LayerParts {
  Bounds bounds;
  std::vector<Rows> reads;
};

LayerParts parts_of(const Graph& g, const Graph::Node& node, const Bounds& source) {
  const ValueShape& x = g.nodes()[0].shape;
  const auto reads = [&](const Rows& rows) { return node.layer->part({&x, 1}, 2, rows).value().reads; };
  LayerParts p{{0}, {}};
  for (std::size_t r = 1; r + 1 < source.size(); ++r) {
    std::int64_t row = p.bounds.back();
    for (; row < node.shape.shape[2]; ++row) {
      const Rows window = reads({row, row + 1});
      if (window.begin + (window.size() - 1) / 2 >= source[r]) break;
    }
    p.bounds.push_back(row);
  }
  p.bounds.push_back(node.shape.shape[2]);
  for (std::size_t r = 0; r + 1 < p.bounds.size(); ++r) p.reads.push_back(reads({p.bounds[r], p.bounds[r + 1]}));
  return p;
}

struct WindowCase {
  std::int64_t kernel, stride, dilation, before, after;
  Bounds source, result;
  std::vector<Rows> reads;  ///< of a convolution
};

/// A result belongs to the owner of the middle of its window.
TEST(PartsOfLayers, ReadTheRowsUnderTheirWindows) {
  const WindowCase cases[] = {
      {3, 1, 1, 1, 1, {0, 5, 11, 16}, {0, 5, 11, 16}, {{-1, 6}, {4, 12}, {10, 17}}},
      {3, 2, 1, 1, 1, {0, 3, 7, 10}, {0, 2, 4, 5}, {{-1, 4}, {3, 8}, {7, 10}}},
      {4, 1, 1, 0, 0, {0, 4, 8, 12, 15}, {0, 3, 7, 11, 12}, {{0, 6}, {3, 10}, {7, 14}, {11, 15}}},
      {2, 2, 1, 0, 0, {0, 5, 9, 13}, {0, 3, 5, 6}, {{0, 6}, {6, 10}, {10, 12}}},
      {3, 2, 1, 0, 1, {0, 3, 7, 10}, {0, 1, 3, 5}, {{0, 3}, {2, 7}, {6, 11}}},
      {3, 1, 6, 6, 6, {0, 3, 6, 9, 12}, {0, 3, 6, 9, 12}, {{-6, 9}, {-3, 12}, {0, 15}, {3, 18}}},
      {5, 3, 2, 4, 2, {0, 6, 12, 17}, {0, 2, 4, 5}, {{-4, 8}, {2, 14}, {8, 17}}},
  };
  for (const WindowCase& c : cases) {
    Graph g;
    const Var x = g.input("x", {2, c.source.back(), 20});
    conv(x, {.filters = 3,
             .size = c.kernel,
             .stride = c.stride,
             .padding = Padding::given,
             .dilation = c.dilation,
             .pad_begin = {c.before, 0},
             .pad_end = {c.after, 0}});
    const auto p = parts_of(g, g.nodes()[1], c.source);
    EXPECT_EQ(p.bounds, c.result);
    EXPECT_EQ(p.reads, c.reads);
    if (c.dilation > 1) continue;
    Graph pooled;
    max_pool(pooled.input("x", {2, c.source.back(), 20}),
             {.size = c.kernel, .stride = c.stride, .pad_begin = {c.before, 0}, .pad_end = {c.after, 0}});
    const auto q = parts_of(pooled, pooled.nodes()[1], c.source);
    EXPECT_EQ(q.bounds, c.result);
    for (std::size_t r = 0; r < q.reads.size(); ++r)
      EXPECT_EQ(q.reads[r], c.reads[r].common({0, c.source.back()})) << "windows end at the edges";
  }
}

TEST(RowTransfers, BringEachRowFromItsOwner) {
  const auto value = ValueParts::cut({0, 3, 6, 9, 12});
  const std::vector<Rows> wanted{{-6, 9}, {-3, 12}, {0, 15}, {3, 18}};
  const auto first = row_transfers(value, wanted, 0), second = row_transfers(value, wanted, 1);
  EXPECT_EQ(first.own, (Rows{0, 3}));
  EXPECT_EQ(first.receives, (std::vector<RowMessage>{{1, {3, 6}}, {2, {6, 9}}}));
  EXPECT_EQ(first.sends, (std::vector<RowMessage>{{1, {0, 3}}, {2, {0, 3}}}));
  EXPECT_EQ(first.zeros, (std::vector<Rows>{{-6, 0}}));
  EXPECT_EQ(second.receives, (std::vector<RowMessage>{{0, {0, 3}}, {2, {6, 9}}, {3, {9, 12}}}));
  EXPECT_EQ(second.zeros, (std::vector<Rows>{{-3, 0}}));
}

TEST(RowTransfers, AreWhatTheOtherRankExpects) {
  const auto value = ValueParts::cut({0, 4, 5, 11, 12});
  for (const std::int64_t reach : {0, 1, 3, 20}) {
    std::vector<Rows> wanted;
    for (std::size_t r = 0; r < 4; ++r) wanted.push_back({value.owned(r).begin - reach, value.owned(r).end + reach});
    for (int r = 0; r < 4; ++r) {
      const auto mine = row_transfers(value, wanted, r);
      std::int64_t rows = mine.own.size();
      for (const RowMessage& m : mine.receives) {
        rows += m.rows.size();
        const auto sends = row_transfers(value, wanted, m.peer).sends;
        EXPECT_EQ(std::count(sends.begin(), sends.end(), RowMessage{r, m.rows}), 1);
      }
      for (const Rows& zeros : mine.zeros) rows += zeros.size();
      EXPECT_EQ(rows, wanted[static_cast<std::size_t>(r)].size()) << "each row once";
    }
  }
}

TEST(RowTransfers, TakeRowsOfWholeValuesFromMemory) {
  const auto whole = ValueParts::whole(8, 2);
  const auto t = row_transfers(whole, {{-1, 4}, {3, 9}}, 1);
  EXPECT_EQ(t.own, (Rows{3, 8}));
  EXPECT_TRUE(t.receives.empty() && t.sends.empty());
  EXPECT_EQ(t.zeros, (std::vector<Rows>{{8, 9}}));
}

/// The nodes of each of `ranks` parts, all of them by rows.
std::vector<SpatialParts> parts_for(const Graph& g, int ranks, bool training = true) {
  std::vector<SpatialParts> all;
  for (int r = 0; r < ranks; ++r) {
    const ProcessGrid grid({.data = 1, .space = ranks}, r);
    const PlanOptions options{.training = training, .grid = &grid, .whole_parameters = true};
    all.push_back(spatial_parts(g, fuse(g, options), options));
  }
  return all;
}

const Graph::Node& named(const SpatialParts& s, const std::string& name) {
  for (const Graph::Node& n : s.nodes)
    if (n.name == name) return n;
  throw Error("no node " + name);
}

TEST(SpatialParts, CutsCosmoFlowWhereItHasRows) {
  const Graph g = nets::cosmoflow_mlperf({.size = 128});
  const auto parts = parts_for(g, 4);
  for (int r = 0; r < 4; ++r) {
    const SpatialParts& p = parts[static_cast<std::size_t>(r)];
    EXPECT_TRUE(p.alike);
    EXPECT_EQ(p.inputs, (std::map<std::string, Rows>{{"x", {32 * r - 1, 32 * r + 33}}}))
        << "with the rows of neighbors";
    EXPECT_EQ(named(p, "x").shape.shape, (Shape{1, 4, 34, 128, 128}));
    EXPECT_EQ(named(p, "conv1").shape.shape, (Shape{1, 32, 16, 64, 64})) << "pooled";
    EXPECT_EQ(named(p, "conv5").shape.shape, (Shape{1, 512, 1, 4, 4}));
    EXPECT_EQ(named(p, "conv2/rows of conv1").shape.shape, (Shape{1, 32, 18, 64, 64}));
    int exchanges = 0;
    for (const Graph::Node& n : p.nodes) exchanges += n.layer && n.layer->kind() == "rows" ? 1 : 0;
    EXPECT_EQ(exchanges, 5) << "before conv2 to conv5 and before the dense layers";
  }
}

/// Two rows for four ranks: two of them compute a row that another one owns.
TEST(SpatialParts, ComputesRowsTwiceWhereRanksOwnNone) {
  const Graph g = nets::cosmoflow_mlperf({.size = 32});
  for (const SpatialParts& p : parts_for(g, 4)) {
    EXPECT_EQ(named(p, "conv3").shape.shape[2], 1);
    EXPECT_EQ(named(p, "conv4").shape.shape[2], 1) << "of 2";
    EXPECT_EQ(named(p, "conv4/rows of conv3").shape.shape[2], 4);
    EXPECT_EQ(named(p, "conv5").shape.shape[2], 1) << "the whole value, on all ranks";
    EXPECT_TRUE(p.alike);
  }
}

/// The work of an inner rank, compared with that of one rank: by how much parts can make a step faster at
/// best. The figures are computed from the network's table: with parts of which some are empty, and conv5 by channels.
TEST(SpatialParts, ScaleToAsManyRanksAsThereAreRows) {
  const EnvironmentVariable rules("KEELSON_TUNE", "off");
  const Graph g = nets::cosmoflow_mlperf({.size = 128});
  const auto work = [&](int ranks) {
    Parameters parameters(g, context(network_contexts().back()), 1);
    const ProcessGrid grid({.data = 1, .space = ranks}, ranks / 2);
    double gflop = 0;
    for (const PlanRow& row : Plan(g, parameters, {.training = false, .grid = &grid}).rows()) gflop += row.gflop;
    return gflop;
  };
  const double whole = work(1);
  for (const auto& [ranks, speed_up] : {std::pair{8, 8.0}, {16, 14.5}, {32, 21.0}})
    EXPECT_NEAR(whole / work(ranks), speed_up, 0.05 * speed_up) << ranks << " ranks";
}

TEST(SpatialParts, CutsUnevenlyWhereItMust) {
  const auto parts = parts_for(nets::cosmoflow_mlperf({.size = 128}), 3);
  EXPECT_FALSE(parts[0].alike);
  EXPECT_EQ(parts[0].inputs.at("x"), (Rows{-1, 45}));
  EXPECT_EQ(parts[1].inputs.at("x"), (Rows{43, 85}));
  EXPECT_EQ(parts[0].bounds, parts[1].bounds);
}

/// Every rank needs its share of the values between layers, and the rows of its neighbours.
TEST(SpatialParts, DivideTheMemory) {
  const EnvironmentVariable rules("KEELSON_TUNE", "off");
  if (Device& device = context(network_contexts().back()).device(); !device.bus_id().empty())
    GTEST_SKIP() << "the workspaces of " << device.describe() << " do not grow with the values";
  const Graph g = nets::cosmoflow_mlperf({.size = 256});
  const Sgd sgd;
  const auto arena = [&](int ranks, int rank) {
    const ProcessGrid grid({.data = 1, .space = ranks}, rank);
    Parameters parameters(g, context(network_contexts().back()), 1);
    return static_cast<double>(Plan(g, parameters, {.optimizer = &sgd, .grid = &grid}).arena_lower_bound());
  };
  const double whole = arena(1, 0);
  constexpr double halos = 10223616;  // bytes, of an inner rank of 4
  EXPECT_LE(arena(2, 0), 1.05 * (whole / 2 + halos));
  EXPECT_LE(arena(4, 1), 1.05 * (whole / 4 + halos));
}

/// Weight gradients are computed between the starts of an exchange and its first wait.
TEST(SpatialParts, ComputeWeightGradientsWhileRowsTravel) {
  const EnvironmentVariable rules("KEELSON_TUNE", "off");
  const ProcessGrid grid({.data = 1, .space = 4}, 1);
  const Graph g = nets::cosmoflow_mlperf({.size = 64});
  Parameters parameters(g, context(network_contexts().back()), 1);
  const auto rows = Plan(g, parameters, {.grid = &grid}).rows();
  const auto find = [&](const std::string& node, const std::string& op) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].phase == "backward" && rows[i].node == node && rows[i].op.find(op) != std::string::npos) return i;
    ADD_FAILURE() << node << ": " << op;
    return std::size_t{0};
  };
  for (const std::string layer : {"conv2", "conv3"}) {
    const std::string exchange = layer + "/rows of " + (layer == "conv2" ? "conv1" : "conv2");
    const std::size_t data = find(layer, "bwd data"), weights = find(layer, "bwd weights"),
                      sent = find(exchange, "send"), waited = find(exchange, "wait for");
    EXPECT_LT(data, sent) << layer;
    EXPECT_LT(sent, weights) << layer;
    EXPECT_LT(weights, waited) << layer;
  }
}

TEST(SpatialParts, LeavesNetworksWithoutSpatialDimensionsWhole) {
  Graph g;
  mse(dense(g.input("x", {8}), 2), g.input("y", {2}));
  const auto parts = parts_for(g, 2);
  EXPECT_TRUE(parts[0].inputs.empty());
  EXPECT_EQ(parts[0].nodes.size(), g.nodes().size());
}

TEST(SpatialParts, RefusesLayersWithoutARule) {
  Graph g;
  const Var x = conv(g.input("x", {2, 8, 8}), {.filters = 2});
  mse(flatten(reshape(x, {4, 4, 8}, "squares")), g.input("y", {128}));
  try {
    parts_for(g, 2);
    FAIL() << "reshaping mixes rows";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("the layer squares (reshape) cannot compute parts of samples (--spatial)"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace keelson::testing
