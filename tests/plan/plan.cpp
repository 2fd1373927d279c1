#include "engine/execute/executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/base/trace.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

/// Branches that meet again, shared values, every kind of layer, odd sizes: what a residual or U-shaped network does.
Graph branched() {
  Graph g;
  const Var x = g.input("x", {3, 9, 10});
  const Var y = g.input("y", {6});
  const Var a = relu(conv(x, {.filters = 8}, "a"));
  const Var b = gelu(conv(a, {.filters = 8, .groups = 2}, "b"));
  const Var c = silu(conv(a, {.filters = 8, .size = 1, .bias = false}, "c"));
  const Var d = concat({add({a, b, c}), sigmoid(b)});
  const Var e = average_pool(max_pool(d, {.size = 3, .stride = 2, .padding = 1}), 2);
  const Var f = dropout(flatten(e), 0.25f, "drop");
  g.set_output("prediction", softmax(dense(f, 6, "out")));
  mse(Var{&g, g.outputs()[0].second}, y);
  return g;
}

double branched_oracle(oracle::Tape& t, const Array& x, const Array& y, const Array& weight,
                       const ops::StepParams& step_params) {
  const auto conv2 = [](std::int64_t k, std::int64_t groups) {
    return ops::ConvParams{{k, k}, {1, 1}, {1, 1}, {k / 2, k / 2}, {k / 2, k / 2}, groups, true, {}};
  };
  const int v = t.input(x);
  const int a = t.eltwise(t.conv(v, "a", conv2(3, 1)), {ops::EltwiseKind::relu});
  const int b = t.eltwise(t.conv(a, "b", conv2(3, 2)), {ops::EltwiseKind::gelu});
  const int c = t.eltwise(t.conv(a, "c", conv2(1, 1)), {ops::EltwiseKind::silu});
  const int d = t.concat({t.add(t.add(a, b), c), t.eltwise(b, {ops::EltwiseKind::sigmoid})}, 1);
  const int e = t.pool(t.pool(d, {ops::PoolKind::max, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false}),
                       {ops::PoolKind::average, {2, 2}, {2, 2}, {0, 0}, {0, 0}, false});
  const int f = t.dropout(t.flatten(e), "drop", 0.25f, step_params);
  return t.loss(t.softmax(t.dense(f, "out"), 1), y, weight, {ops::LossKind::mse}, step_params);
}

class PlanTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }
};

TEST_P(PlanTest, GradientsOfABranchedNetworkAgreeWithTheOracle) {
  const Graph g = branched();
  Parameters parameters(g, ctx(), 1);
  Executor executor(g, parameters, {.batch = 3});
  const Array x = oracle::random_uniform({3, 3, 9, 10}, "x"), y = oracle::random_uniform({3, 6}, "y", 0, 1);
  const Array weight({3}, std::vector<double>{1, 0, 1});
  set_input(ctx(), executor, "x", x);
  set_input(ctx(), executor, "y", y);
  set_input(ctx(), executor, "weight", weight);
  ops::StepParams step_params;
  step_params.inverse_samples = 0.5f;
  step_params.sample_offset = 6;
  oracle::Tape tape(plain_parameters(parameters));
  const double want_loss = branched_oracle(tape, x, y, weight, step_params);
  executor.forward(step_params);
  executor.backward();
  EXPECT_NEAR(executor.loss(), want_loss, 1e-5 * want_loss);
  ASSERT_EQ(tape.gradients().size(), parameters.all().size());
  for (const auto& [name, want] : tape.gradients()) {
    const auto got = executor.gradient(name);
    EXPECT_LT(relative_error(Array(want.shape, std::vector<double>(got.begin(), got.end())), want), 1e-4) << name;
  }
}

TEST_P(PlanTest, FusionChangesNothingButTheNumberOfCalls) {
  const Graph g = branched();
  std::vector<std::vector<float>> gradients[2];
  std::size_t calls[2];
  for (const bool fuse : {false, true}) {
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, {.batch = 2, .fuse = fuse});
    set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 9, 10}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 6}, "y", 0, 1));
    executor.forward({});
    executor.backward();
    for (const auto& p : parameters.all()) gradients[fuse].push_back(executor.gradient(p.name));
    calls[fuse] = executor.rows().size();
  }
  EXPECT_LT(calls[1], calls[0]);
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    const auto& a = gradients[0][i];
    const auto& b = gradients[1][i];
    EXPECT_LT(relative_error(Array({static_cast<std::int64_t>(b.size())}, std::vector<double>(b.begin(), b.end())),
                             Array({static_cast<std::int64_t>(a.size())}, std::vector<double>(a.begin(), a.end()))),
              1e-5);
  }
}

Array flat(const std::vector<float>& v) {
  return Array({static_cast<std::int64_t>(v.size())}, std::vector<double>(v.begin(), v.end()));
}

TEST_P(PlanTest, Bf16IsNearF32AndFallsBackToIt) {
  const Graph g = branched();
  std::vector<std::vector<float>> gradients[2];
  std::uint64_t hash[2];
  for (const bool low : {false, true}) {
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, {.batch = 2, .precision = low ? Precision::bf16 : Precision::fp32});
    set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 9, 10}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 6}, "y", 0, 1));
    executor.forward({});
    executor.backward();
    for (const auto& p : parameters.all()) gradients[low].push_back(executor.gradient(p.name));
    hash[low] = executor.plan().hash();
  }
  const bool has_bf16 = hash[0] != hash[1];
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_LE(relative_error(flat(gradients[1][i]), flat(gradients[0][i])), has_bf16 ? 0.05 : 0.0);
}

/// Convolutions as much as dense layers, wherever a backend has the kernel.
TEST_P(PlanTest, Bf16ReachesConvolutionsByThemselves) {
  Graph g;
  const Var x = g.input("x", {16, 8, 8}), y = g.input("y", {1024});
  mse(flatten(conv(relu(conv(x, {.filters = 16}, "a")), {.filters = 16}, "b")), y);
  std::uint64_t hash[2];
  for (const bool low : {false, true}) {
    Parameters parameters(g, ctx(), 1);
    hash[low] = Plan(g, parameters, {.precision = low ? Precision::bf16 : Precision::fp32}).hash();
  }
  const Shape s{1, 16, 8, 8}, w{16, 16, 3, 3}, one{1, 1};
  const ops::ConvDesc d{{{3, 3}, one, one, one, one, 1, true, {}},
                        {s, DType::bf16, Layout::any()},
                        {w, DType::bf16, Layout::any()},
                        {s, DType::f32, Layout::any()}};
  EXPECT_EQ(hash[0] != hash[1], ctx().try_make(d) != nullptr);
}

/// Also where the convolution in f32 could be made with the pooling in one call.
TEST_P(PlanTest, HalfPrecisionReachesConvolutionsBeforeMaxPooling) {
  Graph g;
  const Var x = g.input("x", {16, 8, 8}), y = g.input("y", {256});
  mse(flatten(max_pool(relu(conv(x, {.filters = 16}, "a")), 2)), y);
  for (const auto precision : {Precision::bf16, Precision::fp16}) {
    Parameters parameters(g, ctx(), 1);
    const Plan plan(g, parameters, {.precision = precision});
    const auto rows = plan.rows();
    const bool converts =
        std::any_of(rows.begin(), rows.end(), [](const PlanRow& r) { return r.node == "a" && r.op == "convert"; });
    const Shape s{1, 16, 8, 8}, w{16, 16, 3, 3}, one{1, 1};
    const DType type = compute_type(precision);
    ops::ConvDesc d{{{3, 3}, one, one, one, one, 1, true, {}},
                    {s, type, Layout::channels_last(s)},
                    {w, type, Layout::any()},
                    {s, DType::f32, Layout::channels_last(s)}};
    d.training = false;  // the gradients of a pooled convolution are in f32
    EXPECT_EQ(converts, ctx().try_make(d) != nullptr) << to_string(precision);
  }
}

/// Where the gradient of the convolution's result is made, here since the windows overlap, the bias has its gradient
/// from the pooled one, which is smaller.
TEST_P(PlanTest, SumsTheBiasOfAPooledConvolutionFromThePooledGradient) {
  Graph g;
  const Var x = g.input("x", {3, 13, 12, 11}), y = g.input("y", {3});
  const Var a = max_pool(leaky_relu(conv(x, {.filters = 16}, "a"), 0.3f), {.size = 3, .stride = 2});
  g.set_output("prediction", dense(flatten(a), 3, "out"));
  mse(Var{&g, g.outputs()[0].second}, y);
  std::vector<std::vector<float>> gradients[2];
  for (const bool fuse : {false, true}) {
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, {.batch = 2, .fuse = fuse});
    set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 13, 12, 11}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 3}, "y", 0, 1));
    executor.forward({});
    executor.backward();
    for (const auto& p : parameters.all()) gradients[fuse].push_back(executor.gradient(p.name));
    const auto rows = executor.plan().rows();
    const auto sum =
        std::find_if(rows.begin(), rows.end(), [](const PlanRow& r) { return r.op == "bias bwd weights"; });
    ASSERT_EQ(sum != rows.end(), fuse);
    if (fuse) {
      EXPECT_NEAR(sum->megabytes, 2 * 16 * 6 * 5 * 5 * 4e-6, 1e-6);
    }
  }
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_LT(relative_error(flat(gradients[1][i]), flat(gradients[0][i])), 1e-5);
}

/// A first layer, whose weights alone have a gradient: by argmax indices in every precision, wherever a backend can. In
/// 16 bits nearly equal results of a window may have another order than in fp32, with or without fusion.
TEST_P(PlanTest, AFirstLayerGoesBackByArgmaxIndices) {
  Graph g;
  const Var x = g.input("x", {3, 13, 12, 11}), y = g.input("y", {3});
  const Var a = max_pool(leaky_relu(conv(x, {.filters = 16}, "a"), 0.3f), 2);
  g.set_output("prediction", dense(flatten(a), 3, "out"));
  mse(Var{&g, g.outputs()[0].second}, y);
  const auto gradients = [&](Precision precision, bool fuse) {
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, {.batch = 2, .fuse = fuse, .precision = precision});
    set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 13, 12, 11}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 3}, "y", 0, 1));
    executor.forward({});
    executor.backward();
    const auto rows = executor.plan().rows();
    const auto unpooled =
        std::count_if(rows.begin(), rows.end(), [](const PlanRow& r) { return r.op == "max_pool bwd data"; });
    if (!fuse) {
      EXPECT_EQ(unpooled, 1);
    } else if (precision == Precision::fp32 && rows.front().backend == "kokkos") {
      EXPECT_EQ(unpooled, 0) << "the gradient of the convolution's result is made";
    }
    std::vector<std::vector<float>> all;
    for (const auto& p : parameters.all()) all.push_back(executor.gradient(p.name));
    return all;
  };
  const auto want = gradients(Precision::fp32, false), fused = gradients(Precision::fp32, true),
             half = gradients(Precision::bf16, false), fused_half = gradients(Precision::bf16, true);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_LT(relative_error(flat(fused[i]), flat(want[i])), 1e-5);
    EXPECT_LT(relative_error(flat(fused_half[i]), flat(want[i])), 0.02 + relative_error(flat(half[i]), flat(want[i])));
  }
}

/// A convolution whose result is too large for the caches, with planes that the pooling drops.
TEST_P(PlanTest, DepthTilesChangeNothingButTheMemory) {
  Graph g;
  const Var x = g.input("x", {2, 67, 64, 64}), y = g.input("y", {3});
  const Var a = max_pool(leaky_relu(conv(x, {.filters = 16}, "a"), 0.3f), 2);
  const Var b = max_pool(relu(conv(a, {.filters = 4, .padding = Padding::valid}, "b")), 2);
  g.set_output("prediction", dense(flatten(average_pool(b, 5)), 3, "out"));
  mse(Var{&g, g.outputs()[0].second}, y);
  std::vector<std::vector<float>> gradients[2];
  std::vector<Array> outputs;
  std::size_t arena[2];
  for (const bool fuse : {false, true})
    for (const bool training : {true, false}) {
      Parameters parameters(g, ctx(), 1);
      Executor executor(g, parameters, {.batch = 2, .training = training, .fuse = fuse});
      set_input(ctx(), executor, "x", oracle::random_uniform({2, 2, 67, 64, 64}, "x"));
      set_input(ctx(), executor, "y", oracle::random_uniform({2, 3}, "y", 0, 1));
      executor.forward({});
      outputs.push_back(get_output(ctx(), executor, "prediction"));
      if (!training) continue;
      arena[fuse] = executor.plan().arena_bytes();
      executor.backward();
      for (const auto& p : parameters.all()) gradients[fuse].push_back(executor.gradient(p.name));
    }
  for (const auto& o : outputs) EXPECT_LT(relative_error(o, outputs[0]), 1e-5);
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_LT(relative_error(flat(gradients[1][i]), flat(gradients[0][i])), 1e-4);
  if (ctx().device().has_small_caches()) {
    EXPECT_LT(arena[1], arena[0] / 2);
  }
}

TEST_P(PlanTest, PlansOfOtherBatchesAndModesShareParametersAndArena) {
  const Graph g = branched();
  Parameters parameters(g, ctx(), 1);
  Executor one(g, parameters, {.batch = 1, .training = false});
  Executor train(g, parameters, {.batch = 4});
  Executor four(g, parameters, {.batch = 4, .training = false});
  const Array x = oracle::random_uniform({4, 3, 9, 10}, "x");
  set_input(ctx(), four, "x", x);
  four.forward({});
  const Array all = get_output(ctx(), four, "prediction");
  set_input(ctx(), one, "x",
            Array({1, 3, 9, 10}, std::vector<double>(x.data.begin() + 270 * 2, x.data.begin() + 270 * 3)));
  one.forward({});
  const Array third = get_output(ctx(), one, "prediction");
  EXPECT_TRUE(
      close(third, Array({1, 6}, std::vector<double>(all.data.begin() + 12, all.data.begin() + 18)), "sample 2"));
  EXPECT_EQ(parameters.arena()->bytes(),
            std::max({one.plan().arena_bytes(), train.plan().arena_bytes(), four.plan().arena_bytes()}));
}

TEST_P(PlanTest, AStepAllocatesNothingAndRepeatsItsBits) {
  const Graph g = branched();
  std::vector<float> values[2];
  for (auto& result : values) {
    Parameters parameters(g, ctx(), 1);
    AdamW optimizer;
    optimizer.clip_norm = 0.1f;
    optimizer.larc.mode = ops::LarcMode::clip;
    Executor executor(g, parameters, {.batch = 2, .optimizer = &optimizer});
    set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 9, 10}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 6}, "y", 0, 1));
    ops::StepParams step_params;
    step_params.learning_rate = 0.01f;
    const auto step = [&] {
      executor.forward(step_params);
      executor.backward();
      executor.update();
      ++step_params.step;
    };
    step();
    const bool captures = ctx().device().can_capture();
    for (int i = 0; captures && i < 2; ++i) step();  // the third step captures the last graph
    // Our own code allocates nothing. Kokkos copies the label of a kernel that it starts, and a oneDNN primitive keeps
    // some bookkeeping of its own for each execution: small change on the heap, never an array.
    const Allocations used = allocations_of(step);
    const std::int64_t most = 2048 * static_cast<std::int64_t>(executor.rows().size());
    EXPECT_LE(used.bytes, most) << used.calls;
    // Nor does a trace, once it knows the names of the calls.
    const TraceRecorder recorder(1000);
    step();
    const Allocations traced = allocations_of(step);
    EXPECT_LE(traced.bytes, most) << traced.calls;
    EXPECT_LE(traced.calls, used.calls);
    if (!captures) {
      EXPECT_GT(recorder.events().size(), 2 * executor.rows().size());
    }
    for (const auto& p : parameters.all())
      for (float v : parameters.get(p)) result.push_back(v);
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST_P(PlanTest, TheFirstValueThatIsNotFiniteIsNamed) {
  const Graph g = branched();
  Parameters parameters(g, ctx(), 1);
  Executor executor(g, parameters, {.batch = 2});
  Array x = oracle::random_uniform({2, 3, 9, 10}, "x");
  set_input(ctx(), executor, "x", x);
  executor.forward({});
  EXPECT_EQ(executor.first_non_finite(), "");

  Parameter& weights = parameters.at("b/weights");
  const auto good = parameters.get(weights);
  parameters.set(weights, std::vector<float>(good.size(), 3e38f));
  executor.forward({});
  EXPECT_EQ(executor.first_non_finite(), "layer b");

  parameters.set(weights, std::vector<float>(good.size(), std::numeric_limits<float>::quiet_NaN()));
  executor.forward({});
  EXPECT_EQ(executor.first_non_finite(), "parameter b/weights");

  parameters.set(weights, good);
  x[5] = std::numeric_limits<double>::infinity();
  set_input(ctx(), executor, "x", x);
  executor.forward({});
  EXPECT_EQ(executor.first_non_finite(), "input x: sample 0 of the batch has an infinite value");
  const std::int64_t samples[] = {17, 4};
  EXPECT_EQ(executor.first_non_finite(samples), "input x: sample 17 of the data has an infinite value");
}

TEST_P(PlanTest, AClassThatTheNetworkDoesNotHaveIsNamed) {
  Graph g;
  const Var x = g.input("x", {3}), y = g.input("y", {}, DType::s32);
  cross_entropy(dense(x, {.features = 4}, "logits"), y);
  Parameters parameters(g, ctx(), 1);
  Executor executor(g, parameters, {.batch = 3});
  set_input(ctx(), executor, "x", oracle::random_uniform({3, 3}, "x"));
  const auto cause = [&](const std::vector<std::int32_t>& classes) {
    ctx().device().copy_from_host(executor.input("y").raw(), classes.data(), classes.size() * sizeof classes[0]);
    executor.forward({});
    return executor.first_non_finite();
  };
  EXPECT_EQ(cause({0, 3, -1}), "");
  EXPECT_EQ(cause({0, 1, 4}), "input y: sample 2 of the batch has the class 4; expected 0 to 3, or -1 (ignored)");
  EXPECT_EQ(cause({0, -2, 4}), "input y: sample 1 of the batch has the class -2; expected 0 to 3, or -1 (ignored)");
}

TEST_P(PlanTest, PrintsEveryCallWithItsBackend) {
  const Graph g = branched();
  Parameters parameters(g, ctx(), 1);
  Sgd optimizer;
  Executor executor(g, parameters, {.batch = 2, .optimizer = &optimizer});
  executor.set_profiling(true);
  executor.forward({});
  executor.backward();
  executor.update();
  executor.set_profiling(false);  // ends measuring, and keeps what was measured
  std::ostringstream text;
  executor.print(text);
  const auto rows = executor.rows();
  for (const PlanRow& r : rows) {
    EXPECT_NE(text.str().find(r.kernel), std::string::npos);
    EXPECT_FALSE(r.backend.empty()) << r.node << " " << r.op;
    EXPECT_GT(r.milliseconds, 0) << r.node << " " << r.op;
  }
  EXPECT_EQ(text.str().find("of peak"), std::string::npos);
  const DevicePeaks peaks{1e9, 1e9};
  std::ostringstream with_peaks;
  executor.print(with_peaks, &peaks);
  EXPECT_NE(with_peaks.str().find("of peak"), std::string::npos);
  EXPECT_NE(with_peaks.str().find(fmt::format("{:.1f} %", 100 * rows[0].share(peaks))), std::string::npos);
  EXPECT_EQ(executor.plan().hash(), Plan(g, parameters, {.batch = 2, .optimizer = &optimizer}).hash());
  EXPECT_NE(executor.plan().hash(), Plan(g, parameters, {.batch = 4, .optimizer = &optimizer}).hash());
}

TEST_P(PlanTest, RefusesWhatCannotBeTrained) {
  Graph g;
  const Var x = g.input("x", {4});
  g.set_output("out", dense(x, 2));
  Parameters parameters(g, ctx(), 1);
  EXPECT_THROW(Plan(g, parameters, {}), InputError);
  EXPECT_NO_THROW(Plan(g, parameters, {.training = false}));
  EXPECT_THROW(Plan(g, parameters, {.batch = 0, .training = false}), InputError);
}

INSTANTIATE_TEST_SUITE_P(Contexts, PlanTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(Graph, NamesTheNodeThatDoesNotFit) {
  Graph g;
  const Var x = g.input("x", {3, 8, 8});
  try {
    dense(x, 5, "head");
    ADD_FAILURE() << "a dense layer accepted an image";
  } catch (const InputError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("head: ")) << e.what();
  }
  EXPECT_THROW(conv(x, {.filters = 4, .groups = 2}), InputError);
  EXPECT_THROW(conv(x, {.filters = 4, .size = 11, .padding = Padding::valid}), InputError);
  EXPECT_THROW(conv(x, {}, "x"), InputError);
  EXPECT_THROW(add({x, conv(x, {.filters = 4})}), InputError);
  EXPECT_THROW(mse(flatten(x), g.input("y", {3})), InputError);
}

}  // namespace
}  // namespace keelson::testing
