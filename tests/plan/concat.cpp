#include <gtest/gtest.h>

#include <algorithm>

#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Gradients of concatenations are slices that other calls read where they lie: networks with them, held against the
/// oracle's tape.
namespace keelson::testing {
namespace {

using ops::EltwiseKind;

/// A network from "x" to four numbers a sample, and the same on the oracle's tape.
struct ConcatNet {
  std::string name;
  Shape x;
  std::function<Var(Var x)> outputs;
  std::function<int(oracle::Tape& t, int x, const ops::StepParams& now)> on_tape;
};
void PrintTo(const ConcatNet& net, std::ostream* os) { *os << net.name; }

ops::ConvParams conv_params(int spatial, std::int64_t size, bool bias = true) {
  const auto all = [&](std::int64_t n) { return Shape::filled(spatial, n); };
  return {all(size), all(1), all(1), all(size / 2), all(size / 2), 1, bias, {}};
}

/// A dense block; concatenations of concatenations; a source without a gradient, and one that is there twice. Slices go
/// to sums, convolutions, transposed convolutions, batch normalization, activations, dropout, pooling, reshaping.
Var planes(Var x) {
  const Var a = relu(conv(x, {.filters = 8}, "a"));
  Var v = a;
  for (int i = 0; i < 2; ++i)
    v = concat({v, dropout(relu(conv(v, {.filters = 5}, fmt::format("made{}", i))), 0.25f, fmt::format("drop{}", i))});
  const Var low = max_pool(v, 2);
  const Var up = transposed_conv(low, {.filters = 6, .stride = 2}, "up");
  const Var normal = batch_norm(conv(v, {.filters = 4, .bias = false}, "c"), {}, "normal");
  const Var p = gelu(conv(v, {.filters = 4}, "p"));
  const Var s = add({p, normal});
  const Var inner = concat({s, up});
  const Var outer = concat({x, inner, a, s, s, conv(v, {.filters = 3}, "q"), normal});
  const Var low_again = concat({average_pool(outer, 2), low});
  const Var head = concat({conv(low_again, {.filters = 3, .size = 1}, "head"), conv(low, {.filters = 3}, "tail")}, 2);
  return dense(concat({flatten(head), flatten(low)}), 4, "out");
}

int planes_on_tape(oracle::Tape& t, int x, const ops::StepParams& now) {
  const auto conv = [&](int v, const std::string& name, std::int64_t size = 3, bool bias = true) {
    return t.conv(v, name, conv_params(2, size, bias));
  };
  const auto relu = [&](int v) { return t.eltwise(v, {EltwiseKind::relu}); };
  const auto pool = [&](int v, ops::PoolKind kind) { return t.pool(v, {kind, {2, 2}, {2, 2}, {0, 0}, {0, 0}, false}); };
  const int a = relu(conv(x, "a"));
  int v = a;
  for (int i = 0; i < 2; ++i) {
    const int made = relu(conv(v, fmt::format("made{}", i)));
    v = t.concat({v, t.dropout(made, fmt::format("drop{}", i), 0.25f, now)}, 1);
  }
  const int low = pool(v, ops::PoolKind::max);
  const int up = t.transposed_conv(low, "up", {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, true, {}});
  const int normal = t.batch_norm(conv(v, "c", 3, false), "normal", 1e-5);
  const int p = t.eltwise(conv(v, "p"), {EltwiseKind::gelu});
  const int s = t.add(p, normal);
  const int inner = t.concat({s, up}, 1);
  const int outer = t.concat({x, inner, a, s, s, conv(v, "q"), normal}, 1);
  const int low_again = t.concat({pool(outer, ops::PoolKind::average), low}, 1);
  const int head = t.concat({conv(low_again, "head", 1), conv(low, "tail")}, 2);
  return t.dense(t.concat({t.flatten(head), t.flatten(low)}, 1), "out");
}

Var volumes_joined(Var x) {
  const Var a = relu(conv(x, {.filters = 6}, "a"));
  Var v = a;
  for (int i = 0; i < 2; ++i) v = concat({v, relu(conv(v, {.filters = 5}, fmt::format("made{}", i)))});
  const Var outer = concat({concat({conv(v, {.filters = 3}, "p"), v}), sigmoid(a)});
  return dense(flatten(average_pool(outer, 2)), 4, "out");
}

int volumes_joined_on_tape(oracle::Tape& t, int x, const ops::StepParams&) {
  const auto conv = [&](int v, const std::string& name) { return t.conv(v, name, conv_params(3, 3)); };
  const auto relu = [&](int v) { return t.eltwise(v, {EltwiseKind::relu}); };
  const int a = relu(conv(x, "a"));
  int v = a;
  for (int i = 0; i < 2; ++i) v = t.concat({v, relu(conv(v, fmt::format("made{}", i)))}, 1);
  const int outer = t.concat({t.concat({conv(v, "p"), v}, 1), t.eltwise(a, {EltwiseKind::sigmoid})}, 1);
  const Shape two{2, 2, 2}, none{0, 0, 0};
  return t.dense(t.flatten(t.pool(outer, {ops::PoolKind::average, two, two, none, none, false})), "out");
}

/// In plain order, where a slice of one sample has no gaps but begins anywhere.
Var plain_planes(Var x) {
  const Var d = reshape(dense(x, 27, "a"), {3, 3, 3});
  const Var inner = concat({tanh(d), d, gelu(d)});
  return dense(flatten(concat({inner, sigmoid(d), inner})), 4, "out");
}

/// The channels of a sample are parts of its row.
int plain_planes_on_tape(oracle::Tape& t, int x, const ops::StepParams&) {
  const int d = t.dense(x, "a");
  const int inner = t.concat({t.eltwise(d, {EltwiseKind::tanh}), d, t.eltwise(d, {EltwiseKind::gelu})}, 1);
  return t.dense(t.concat({inner, t.eltwise(d, {EltwiseKind::sigmoid}), inner}, 1), "out");
}

Var rows(Var x) {
  const Var a = tanh(dense(x, 7, "a"));
  Var v = a;
  for (int i = 0; i < 2; ++i) v = concat({v, tanh(dense(v, 5, fmt::format("made{}", i)))});
  return dense(concat({x, concat({dense(v, 3, "p"), v}), a}), 4, "out");
}

int rows_on_tape(oracle::Tape& t, int x, const ops::StepParams&) {
  const auto tanh = [&](int v) { return t.eltwise(v, {EltwiseKind::tanh}); };
  const int a = tanh(t.dense(x, "a"));
  int v = a;
  for (int i = 0; i < 2; ++i) v = t.concat({v, tanh(t.dense(v, fmt::format("made{}", i)))}, 1);
  return t.dense(t.concat({x, t.concat({t.dense(v, "p"), v}, 1), a}, 1), "out");
}

std::vector<ConcatNet> concat_nets() {
  return {{"planes", {3, 8, 12}, planes, planes_on_tape},
          {"volumes", {2, 4, 6, 4}, volumes_joined, volumes_joined_on_tape},
          {"plain_planes", {10}, plain_planes, plain_planes_on_tape},
          {"rows", {12}, rows, rows_on_tape}};
}

class ConcatGradient : public ::testing::TestWithParam<std::tuple<ConcatNet, std::string>> {
 protected:
  Context& ctx() { return context(std::get<1>(GetParam())); }

  /// Loss and gradients of one step against the oracle.
  void check(const PlanOptions& options, double tolerance) {
    const ConcatNet& net = std::get<0>(GetParam());
    Graph g;
    mse(net.outputs(g.input("x", net.x)), g.input("y", {4}));
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, options);
    Shape batch{options.batch};
    for (const auto extent : net.x) batch.push_back(extent);
    const Array x = oracle::random_uniform(batch, "x"), y = oracle::random_uniform({options.batch, 4}, "y");
    set_input(ctx(), executor, "x", x);
    set_input(ctx(), executor, "y", y);
    const ops::StepParams now{.seed = 3, .step = 5, .inverse_samples = 1.0f / static_cast<float>(options.batch)};
    oracle::Tape tape(plain_parameters(parameters));
    const double want_loss =
        tape.loss(net.on_tape(tape, tape.input(x), now), y, Array({options.batch}, 1.0), {ops::LossKind::mse}, now);
    executor.forward(now);
    executor.backward();
    EXPECT_NEAR(executor.loss(), want_loss, tolerance * want_loss);
    for (const auto& [name, want] : tape.gradients()) {
      const auto got = executor.gradient(name);
      EXPECT_LT(relative_error(Array(want.shape, std::vector<double>(got.begin(), got.end())), want), tolerance)
          << name << ", batch " << options.batch;
    }
  }
};

TEST_P(ConcatGradient, AgreesWithTheOracle) {
  for (const std::int64_t batch : {1, 3}) check({.batch = batch}, 1e-4);
}

TEST_P(ConcatGradient, AgreesWithoutFusionAndWithRecomputation) {
  check({.batch = 3, .fuse = false}, 1e-4);
  check({.batch = 3, .recompute = true}, 1e-4);
}

TEST_P(ConcatGradient, Bf16IsNear) {
  for (const std::int64_t batch : {1, 3}) check({.batch = batch, .precision = Precision::bf16}, 0.15);
}

INSTANTIATE_TEST_SUITE_P(Plan, ConcatGradient,
                         ::testing::Combine(::testing::ValuesIn(concat_nets()),
                                            ::testing::ValuesIn(network_contexts())),
                         [](const auto& info) { return std::get<0>(info.param).name + "_" + std::get<1>(info.param); });

class ConcatPlan : public ::testing::TestWithParam<std::string> {};

/// Of the gradients' slices, sums and dropout read all.
TEST_P(ConcatPlan, SlicesAreNotCopied) {
  Context& ctx = context(GetParam());
  Graph g;
  const Var x = g.input("x", {3, 32, 32});
  Var v = conv(x, {.filters = 16}, "first");
  for (int i = 0; i < 3; ++i) v = concat({v, dropout(conv(v, {.filters = 16}, fmt::format("made{}", i)), 0.2f)});
  mse(dense(flatten(average_pool(v, 4)), 4, "out"), g.input("y", {4}));
  Parameters parameters(g, ctx, 1);
  const Plan plan(g, parameters, {.batch = 2});
  int sums = 0;
  for (const auto& row : plan.rows()) {
    EXPECT_FALSE(row.phase == "backward" && row.op.starts_with("concat")) << row.node;
    sums += row.op == "sum of gradients";
  }
  EXPECT_EQ(sums, 3);
  for (const std::string& line : plan.reorders())
    EXPECT_TRUE(line.find("weights:") != line.npos || line.starts_with("average_pool") || line.starts_with("out/"))
        << line;
}

/// Each concatenation is the beginning of the last one: a channel is copied there when it is made.
TEST_P(ConcatPlan, ChannelsAreCopiedOnce) {
  Context& ctx = context(GetParam());
  const double channel = 2 * 32 * 32 * sizeof(float) * 1e-6;
  for (const bool training : {false, true})
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(fmt::format("training {}, recompute {}", training, recompute));
      Graph g;
      Var v = conv(g.input("x", {3, 32, 32}), {.filters = 16}, "first");
      for (int i = 0; i < 3; ++i) v = concat({v, relu(conv(v, {.filters = 16}, fmt::format("made{}", i)))});
      mse(dense(flatten(average_pool(v, 4)), 4, "out"), g.input("y", {4}));
      Parameters parameters(g, ctx, 1);
      const Plan plan(g, parameters, {.batch = 2, .training = training, .recompute = recompute});
      double copied = 0;
      for (const auto& row : plan.rows())
        if (row.op == "concat" && row.phase == "forward") copied += row.megabytes / 2 / channel;
      // Whole concatenations can be made again for the backward pass; a buffer with the results of several calls
      // cannot.
      EXPECT_NEAR(copied, training && recompute ? 32 + 48 + 64 : 64, 1e-3);
    }
}

/// The largest need is that of the forward pass, for a concatenation and its sources. A copy of the slices would add
/// to the gradient of the concatenation, while the activation's source waits for its gradient.
TEST_P(ConcatPlan, SlicesTakeNoMemory) {
  Context& ctx = context(GetParam());
  Graph g;
  const Var a = conv(g.input("x", {3, 64, 64}), {.filters = 16, .size = 1}, "a");
  const Var v = concat({a, dropout(gelu(a), 0.2f)});
  mse(dense(flatten(average_pool(v, 4)), 4, "out"), g.input("y", {4}));
  Parameters parameters(g, ctx, 1);
  const Plan plan(g, parameters, {.batch = 2});
  const std::size_t channel = 2 * 64 * 64 * sizeof(float);
  EXPECT_GE(plan.arena_lower_bound(), 64 * channel);
  EXPECT_LT(plan.arena_lower_bound(), 72 * channel);
}

INSTANTIATE_TEST_SUITE_P(Plan, ConcatPlan, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

/// Every contribution is one buffer, which the sum must not overwrite while it has terms to read.
TEST_P(ConcatPlan, TheSameGradientMayBeSummedSeveralTimes) {
  Context& ctx = context(GetParam());
  for (const int times : {2, 3, 10}) {
    Graph g;
    const Var v = dense(g.input("x", {6}), 4, "v");
    mse(dense(add(std::vector<Var>(static_cast<std::size_t>(times), v)), 4, "out"), g.input("y", {4}));
    Parameters parameters(g, ctx, 1);
    Executor executor(g, parameters, {.batch = 2});
    const Array x = oracle::random_uniform({2, 6}, "x"), y = oracle::random_uniform({2, 4}, "y");
    set_input(ctx, executor, "x", x);
    set_input(ctx, executor, "y", y);
    const ops::StepParams now{.inverse_samples = 0.5f};
    oracle::Tape tape(plain_parameters(parameters));
    const int on_tape = tape.dense(tape.input(x), "v");
    int sum = on_tape;
    for (int i = 1; i < times; ++i) sum = tape.add(sum, on_tape);
    tape.loss(tape.dense(sum, "out"), y, Array({2}, 1.0), {ops::LossKind::mse}, now);
    executor.forward(now);
    executor.backward();
    for (const auto& [name, want] : tape.gradients()) {
      const auto got = executor.gradient(name);
      EXPECT_LT(relative_error(Array(want.shape, std::vector<double>(got.begin(), got.end())), want), 1e-4)
          << name << ", " << times << " times";
    }
  }
}

}  // namespace
}  // namespace keelson::testing
