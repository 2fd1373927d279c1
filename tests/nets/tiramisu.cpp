#include "nets/tiramisu/tiramisu.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/layers/layers.hpp"
#include "tests/nets/support.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

TEST(Tiramisu, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(nets::tiramisu().parameter_count(), 7504835);
  EXPECT_EQ(nets::tiramisu({.rows = 64, .columns = 96}).parameter_count(), 7504835);
}

TEST(Tiramisu, TakesEverySizeThatFitsAndRefusesTheOthers) {
  const Graph g = nets::tiramisu({.rows = 32, .columns = 16});
  EXPECT_EQ(g.nodes()[g.outputs()[0].second].shape.shape, (Shape{1, 3, 32, 16}));
  const auto refusal = [](const nets::TiramisuOptions& o) -> std::string {
    try {
      nets::tiramisu(o);
    } catch (const InputError& e) {
      return e.what();
    }
    return "nothing is refused";
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal({.rows = 40, .columns = 96}), "try 32 x 96");
  has(refusal({.rows = 8, .columns = 99}), "try 16 x 96");
  has(refusal({.layers = {2}}), "expected 2 to 16");
  has(refusal({.layers = {2, 0}}), "a block of Tiramisu with 0 layers");
}

// 35 convolutions in fp32 leave 3e-6 of the logits' deviation; another padding or order of channels leaves all of it.
TEST(Tiramisu, GivesThePublishedNumbers) {
  expect_climate_vector(nets::tiramisu({.rows = 64, .columns = 96, .dropout = 0}), WeightScale::fan_in,
                        {.tensors = 35,
                         .loss = .3662294991,
                         .first = {.0760253401, .0456112803, .1726569911},
                         .middle = {.0147865761, .0289803992, .0861389915},
                         .mean = {.0059223488, .0226614315, .0494178374},
                         .deviation = {.0507817, .0586840, .0766140}},
                        1e-5);
}

const ops::EltwiseParams rectified{ops::EltwiseKind::relu};

struct TiramisuOracle {
  oracle::Tape& t;
  const nets::TiramisuOptions& o;
  const ops::StepParams& now;

  int layer(int x, std::int64_t kernel, std::int64_t stride, const std::string& name) const {
    const std::int64_t pad = (kernel - 1) / 2;
    x = t.eltwise(t.conv(x, name, {{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}, 1, true, {}}),
                  rectified);
    return t.dropout(x, name + "_dropout", o.dropout, now);
  }
  /// The maps that the block makes.
  std::vector<int> block(int x, int layers, const std::string& name) const {
    std::vector<int> made;
    for (int i = 1; i <= layers; ++i) {
      made.push_back(layer(x, o.kernel, 1, fmt::format("{}_conv{}", name, i)));
      x = t.concat({x, made.back()}, 1);
    }
    return made;
  }
  int joined(int x, const std::vector<int>& made) const {
    std::vector<int> all{x};
    all.insert(all.end(), made.begin(), made.end());
    return t.concat(all, 1);
  }

  double loss(const Array& x, const Array& y) const {
    const ops::TransposedConvParams twice{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, true, {}};
    int v = layer(t.input(x), o.kernel, 1, "input");
    std::vector<int> skips, made;
    const int last = static_cast<int>(o.layers.size()) - 1;
    for (int i = 0; i <= last; ++i) {
      made = block(v, o.layers[i], fmt::format("down{}", i));
      if (i == last) break;
      skips.push_back(joined(v, made));
      v = layer(skips.back(), 1, 2, fmt::format("transition{}", i));
    }
    for (int i = 0; i < last; ++i) {
      const auto name = fmt::format("up{}", i);
      const int up = t.transposed_conv(t.concat(made, 1), name + "_deconv", twice);
      v = t.concat({up, skips[last - 1 - i]}, 1);
      made = block(v, o.layers[last - 1 - i], name);
    }
    v = t.conv(joined(v, made), "output", {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1, true, {}});
    return t.pixel_loss(t.dropout(v, "output_dropout", o.dropout, now), y, o.loss, now);
  }
};

// Three blocks of small widths: the same code builds the others.
TEST(Tiramisu, AStepAgreesWithTheOracle) {
  const nets::TiramisuOptions o{
      .rows = 16, .columns = 24, .channels = 5, .first = 12, .growth = 8, .layers = {2, 1, 3}, .dropout = 0.2f};
  const Array x = oracle::random_uniform({2, o.channels, o.rows, o.columns}, "x", 0, 1);
  const Array y = oracle::random_integers({2, o.rows, o.columns}, "y", 0, 2);
  expect_step(nets::tiramisu(o), x, y,
              [&](oracle::Tape& t, const ops::StepParams& now) { return TiramisuOracle{t, o, now}.loss(x, y); });
}

TEST(Tiramisu, EvaluatesWithoutDropout) {
  nets::TiramisuOptions o{
      .rows = 16, .columns = 24, .channels = 5, .first = 12, .growth = 8, .layers = {2, 1, 3}, .dropout = 0.2f};
  const Array x = oracle::random_uniform({1, o.channels, o.rows, o.columns}, "x", 0, 1);
  Context& ctx = context(network_contexts().back());
  const auto logits = [&](bool training) {
    const Graph graph = nets::tiramisu(o);
    Parameters parameters(graph, ctx, 5);
    Executor executor(graph, parameters, {.batch = 1, .training = training});
    set_input(ctx, executor, "x", x);
    set_input(ctx, executor, "y", Array({1, o.rows, o.columns}));
    executor.forward({});
    return get_output(ctx, executor, "prediction");
  };
  const Array evaluated = logits(false), dropped = logits(true);
  o.dropout = 0;
  EXPECT_LT(relative_error(evaluated, logits(true)), 1e-5);
  EXPECT_GT(relative_error(evaluated, dropped), 0.1);
  EXPECT_GT(std::ranges::count(dropped.data, 0.0), dropped.elements() / 10) << "logits are dropped, too";
}

}  // namespace
}  // namespace keelson::testing
