#include "engine/optim/kfac.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/ops/pool.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/oracle/kfac.hpp"
#include "tests/oracle/ops.hpp"
#include "tests/oracle/tape.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Whole steps of K-FAC against the oracle, and what must hold of its plans.
namespace keelson::testing {
namespace {

/// In a build without LAPACK K-FAC has no inverses.
bool has_inverses(Context& where) { return where.try_make(ops::FactorInversesDesc{{{}, {}}, {}, 0.1f}) != nullptr; }

constexpr std::int64_t batch = 3;

/// With fused pooling, a stride, layers without bias, and a convolution in groups, which is plain.
Graph images() {
  Graph g;
  const Var x = g.input("x", {3, 8, 8}), y = g.input("y", {2});
  Var h = max_pool(leaky_relu(conv(x, {.filters = 4}, "conv1"), 0.3f), 2);
  h = tanh(conv(h, {.filters = 5, .stride = 2, .bias = false}, "conv2"));
  h = conv(h, {.filters = 5, .groups = 5}, "groups");
  h = relu(dense(flatten(h), {.features = 6, .bias = false}, "dense1"));
  mse(dense(h, 2, "dense2"), y);
  return g;
}

/// A layer of images() in the oracle: its source, the gradient of each sample's own loss by its result, its window.
struct OracleLayer {
  std::string name;
  int src, dst;
  ops::ConvParams window = {};
};

ops::ConvParams same_window(const Shape& src, std::int64_t stride, std::int64_t groups = 1) {
  ops::ConvParams p{.kernel = {3, 3}, .stride = {stride, stride}, .dilation = {1, 1}, .groups = groups};
  ops::set_same_padding(p, src);
  return p;
}

class KfacTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_inverses(ctx())) GTEST_SKIP() << "this build has no LAPACK";
  }
  Context& ctx() { return context(GetParam()); }

  static Array as_array(const Shape& shape, const std::vector<float>& v) {
    return {shape, std::vector<double>(v.begin(), v.end())};
  }
  static int number_of(const Kfac& o, const std::string& state) {
    const auto names = o.state_names();
    return static_cast<int>(std::ranges::find(names, state) - names.begin());
  }
  static Array state_of(const Parameters& parameters, const Kfac& o, const std::string& name,
                        const std::string& state) {
    const Parameter& p = *parameters.find(name);
    const int which = number_of(o, state);
    return as_array(p.shape_of(which), parameters.get(p, which));
  }

  /// The layers that K-FAC knows, in the order of the network; fills the tape.
  static std::vector<OracleLayer> run_oracle(oracle::Tape& t, const Array& x, const Array& y,
                                             const ops::StepParams& now, const Array& weight) {
    std::vector<OracleLayer> layers;
    const auto conv = [&](int v, const std::string& name, std::int64_t stride, std::int64_t groups = 1) {
      const ops::ConvParams window = same_window(t.value(v).shape, stride, groups);
      const int dst = t.conv(v, name, window);
      if (groups == 1) layers.push_back({name, v, dst, window});
      return dst;
    };
    const auto dense = [&](int v, const std::string& name) {
      const int dst = t.dense(v, name);
      layers.push_back({name, v, dst});
      return dst;
    };
    int v = t.eltwise(conv(t.input(x), "conv1", 1), {ops::EltwiseKind::leaky_relu, 0.3f});
    v = t.pool(v, {ops::PoolKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}});
    v = t.eltwise(conv(v, "conv2", 2), {ops::EltwiseKind::tanh});
    v = t.flatten(conv(v, "groups", 1, 5));
    v = dense(t.eltwise(dense(v, "dense1"), {ops::EltwiseKind::relu}), "dense2");
    t.loss(v, y, weight, {}, now);
    return layers;
  }

  /// Steps, each held against the oracle, which begins with the parameters, momenta and factors that the engine has.
  void check_steps(const Kfac& o, int steps);
};

struct Factors {
  Array a, g;                            ///< now
  Array next_a, next_g, used_a, used_g;  ///< when the inverses were begun that are next, and that are used
};

void KfacTest::check_steps(const Kfac& o, int steps) {
  const Graph graph = images();
  Parameters parameters(graph, ctx(), 1);
  Executor executor(graph, parameters, {.batch = batch, .optimizer = &o});
  std::map<std::string, Factors> factors;
  for (int i = 0; i < steps; ++i) {
    const Array x = oracle::random_uniform({batch, 3, 8, 8}, fmt::format("x{}", i)),
                y = oracle::random_uniform({batch, 2}, fmt::format("y{}", i), 3, 5);
    set_input(ctx(), executor, "x", x);
    set_input(ctx(), executor, "y", y);
    const ops::StepParams now{
        .step = static_cast<std::uint64_t>(i), .inverse_samples = 1.0f / batch, .learning_rate = 0.1f};
    std::map<std::string, Array> values, momenta;
    for (const auto& p : parameters.all()) {
      values[p.name] = as_array(p.shape, parameters.get(p));
      momenta[p.name] = as_array(p.shape, parameters.get(p, number_of(o, "momentum_buffer")));
    }
    executor.forward(now);
    executor.backward();
    executor.update();

    oracle::Tape tape(values);
    const auto layers = run_oracle(tape, x, y, now, Array({batch}, 1));
    auto directions = tape.gradients();
    double squares = 0;
    for (const auto& [name, g] : directions) squares += oracle::sum_squares(g);
    const double clip = o.clip_norm > 0 ? std::min(1.0, static_cast<double>(o.clip_norm) / std::sqrt(squares)) : 1;
    std::map<std::string, Array> matrices;
    double products = 0;
    for (const OracleLayer& l : layers) {
      Factors& f = factors[l.name];
      const bool bias = values.contains(l.name + "/bias");
      if (i % o.factor_update_steps == 0) {
        Array d = tape.gradient_of(l.dst);
        for (double& v : d.data) v *= batch;
        ops::ConvParams ones = l.window;
        for (int k = 0; k < ones.kernel.rank(); ++k) {
          ones.kernel[k] = ones.stride[k] = 1;
          ones.pad_begin[k] = ones.pad_end[k] = 0;
        }
        Array a = oracle::products_of_rows(oracle::patch_rows(tape.value(l.src), l.window, bias)),
              g = oracle::products_of_rows(oracle::patch_rows(d, ones, false));
        const std::int64_t places = d.elements() / (d.shape[0] * d.shape[1]);
        const auto positions = static_cast<double>(places);
        for (double& v : a.data) v /= batch;
        for (double& v : g.data) v /= batch * positions;
        const double decay = static_cast<double>(o.factor_decay);
        const auto mean = [&](const Array& before, Array next) {
          for (std::int64_t e = 0; e < next.elements() && !before.empty(); ++e)
            next[e] = decay * before[e] + (1 - decay) * next[e];
          return next;
        };
        f.a = mean(f.a, a);
        f.g = mean(f.g, g);
      }
      if (i % o.inv_update_steps == 0) f.next_a = f.a, f.next_g = f.g;
      const int since = i - o.inv_update_delay;
      if (since >= 0 && since % o.inv_update_steps == 0) f.used_a = f.next_a, f.used_g = f.next_g;
      const auto what = fmt::format("{} after step {}", l.name, i);
      const auto expect_blocks = [&](const char* state, const Array& m, double tolerance) {
        EXPECT_TRUE(close(state_of(parameters, o, l.name + "/weights", state), oracle::diagonal_blocks(m, o.block_size),
                          state + (" of " + what), {tolerance, tolerance}));
      };
      expect_blocks("a_factor", f.a, 1e-4);
      expect_blocks("g_factor", f.g, 1e-3);
      if (f.used_a.empty()) continue;  // momentum SGD
      const Array gradient = oracle::weights_and_bias_as_matrix(directions.at(l.name + "/weights"),
                                                                bias ? directions.at(l.name + "/bias") : Array());
      const double damping = static_cast<double>(o.damping);
      const Array used_a = oracle::block_diagonal(f.used_a, o.block_size),
                  used_g = oracle::block_diagonal(f.used_g, o.block_size);
      const Array direction = o.eigen ? oracle::exact_direction(gradient, used_a, used_g, damping)
                                      : oracle::factored_direction(gradient, used_a, used_g, damping);
      const double rate = l.name == "dense1" && !o.groups.empty() ? 0.5 : 1;
      products += rate * rate * oracle::dot(direction, gradient);
      matrices[l.name] = direction;
    }
    const double lr = 0.1, sum = lr * lr * clip * clip * products;
    const double nu = o.kl_clip > 0 ? std::min(1.0, std::sqrt(static_cast<double>(o.kl_clip) / sum)) : 1;
    EXPECT_TRUE(o.kl_clip == 0 || matrices.empty() || nu < 1) << "the clip has an effect";
    for (auto& [name, matrix] : matrices) {
      for (double& v : matrix.data) v *= nu;
      Array none;
      const bool bias = values.contains(name + "/bias");
      oracle::split_matrix(matrix, directions.at(name + "/weights"), bias ? directions.at(name + "/bias") : none);
    }
    for (const auto& p : parameters.all()) {
      const bool in_group = p.name.starts_with("dense1") && !o.groups.empty();
      const double decay = static_cast<double>(in_group ? 0.1f : o.weight_decay), rate = in_group ? 0.5 : 1;
      // How far the parameter has moved, which is less than its own size.
      const Array &before = values.at(p.name), after = as_array(p.shape, parameters.get(p));
      Array want(p.shape), moved(p.shape);
      for (std::int64_t e = 0; e < want.elements(); ++e) {
        want[e] = lr * rate *
                  (static_cast<double>(o.momentum) * momenta.at(p.name)[e] + clip * directions.at(p.name)[e] +
                   decay * before[e]);
        moved[e] = before[e] - after[e];
      }
      EXPECT_TRUE(close(moved, want, fmt::format("{} in step {} of {}", p.name, i, o.to_string()), {2e-3, 2e-3}));
    }
  }
}

TEST_P(KfacTest, StepsMatchTheOracle) {
  for (const bool eigen : {false, true}) {
    Kfac o;
    o.eigen = eigen;
    o.damping = 0.03f;
    o.factor_update_steps = 2;
    o.inv_update_steps = 4;
    check_steps(o, 6);
    o.inv_update_delay = 3;
    check_steps(o, 8);
    o.inv_update_delay = 0;
    o.kl_clip = 0;
    o.clip_norm = 0.5f;
    o.weight_decay = 0.01f;
    o.groups = {{{"dense1/*"}, 0.1f, 0.5f}};
    o.factor_update_steps = o.inv_update_steps = 1;
    check_steps(o, 3);
  }
}

/// Of 5 rows or fewer: A of conv1 has six blocks, the last one of 3 rows, that of conv2 a last one of 1 row and no
/// bias; G of dense1 has two of 3.
TEST_P(KfacTest, StepsWithBlocksMatchTheOracle) {
  for (const bool eigen : {false, true}) {
    Kfac o;
    o.eigen = eigen;
    o.damping = 0.03f;
    o.block_size = 5;
    o.factor_update_steps = 2;
    o.inv_update_steps = 4;
    check_steps(o, 6);
    const Graph graph = images();
    Parameters parameters(graph, ctx(), 1);
    set_own_shapes(parameters, o);
    const auto shape = [&](const char* name, const char* state) {
      return parameters.find(name)->shape_of(number_of(o, state));
    };
    EXPECT_EQ(shape("conv1/weights", "a_factor"), (Shape{6, 5, 5}));
    EXPECT_EQ(shape("conv2/weights", "a_factor"), (Shape{8, 5, 5}));
    EXPECT_EQ(shape("dense1/weights", "g_factor"), (Shape{2, 3, 3}));
    EXPECT_EQ(shape("dense1/weights", "g_inverse"), eigen ? (Shape{2, 4, 3}) : (Shape{2, 3, 3}));
  }
}

/// Blocks that are not cut are the whole factor: the same bits.
TEST_P(KfacTest, LargeBlocksChangeNothing) {
  const Graph graph = images();
  const auto parameters_with = [&](std::int32_t block_size) {
    Kfac o;
    o.block_size = block_size;
    Parameters parameters(graph, ctx(), 1);
    Executor executor(graph, parameters, {.batch = batch, .optimizer = &o});
    std::vector<float> all;
    for (std::uint64_t i = 0; i < 3; ++i) {
      set_input(ctx(), executor, "x", oracle::random_uniform({batch, 3, 8, 8}, "x"));
      set_input(ctx(), executor, "y", oracle::random_uniform({batch, 2}, "y"));
      executor.forward({.step = i, .inverse_samples = 1.0f / batch, .learning_rate = 0.01f});
      executor.backward();
      executor.update();
    }
    for (const auto& p : parameters.all()) {
      const auto values = parameters.get(p);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  EXPECT_EQ(parameters_with(0), parameters_with(36));
  EXPECT_NE(parameters_with(0), parameters_with(35));
}

/// Samples of weight 0 count nowhere.
TEST_P(KfacTest, ShortBatchesAreThoseOfTheirSamples) {
  const Graph graph = images();
  Kfac o;
  const Array x = oracle::random_uniform({2, 3, 8, 8}, "x"), y = oracle::random_uniform({2, 2}, "y");
  const auto parameters_after = [&](std::int64_t size) {
    Parameters parameters(graph, ctx(), 1);
    Executor executor(graph, parameters, {.batch = size, .optimizer = &o});
    Array all_x({size, 3, 8, 8}), all_y({size, 2}), weight({size});
    for (std::int64_t s = 0; s < size; ++s) {
      weight[s] = s < 2 ? 1 : 0;
      for (std::int64_t e = 0; e < 192; ++e) all_x[s * 192 + e] = x[s % 2 * 192 + e];
      for (std::int64_t e = 0; e < 2; ++e) all_y[s * 2 + e] = y[s % 2 * 2 + e];
    }
    set_input(ctx(), executor, "x", all_x);
    set_input(ctx(), executor, "y", all_y);
    set_input(ctx(), executor, "weight", weight);
    executor.forward({.inverse_samples = 0.5f, .learning_rate = 0.1f});
    executor.backward();
    executor.update();
    std::map<std::string, Array> all;
    for (const auto& p : parameters.all()) {
      all[p.name] = as_array(p.shape, parameters.get(p));
      if (p.product_inputs > 0) all[p.name + " A"] = state_of(parameters, o, p.name, "a_factor");
      if (p.product_inputs > 0) all[p.name + " G"] = state_of(parameters, o, p.name, "g_factor");
    }
    return all;
  };
  const auto two = parameters_after(2), five = parameters_after(5);
  for (const auto& [name, values] : two) EXPECT_TRUE(close(five.at(name), values, name, {1e-4, 1e-4}));
}

/// A few positions make a factor that is right on average, since they differ from step to step.
TEST_P(KfacTest, FewPositionsMakeFactorsThatAreNear) {
  const Graph graph = images();
  const auto factor = [&](std::int32_t positions, int steps) {
    Kfac o;
    o.factor_positions = positions;
    o.factor_update_steps = 1;
    o.factor_decay = 0.95f;
    Parameters parameters(graph, ctx(), 1);
    Executor executor(graph, parameters, {.batch = batch, .optimizer = &o});
    set_input(ctx(), executor, "x", oracle::random_uniform({batch, 3, 8, 8}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({batch, 2}, "y"));
    for (int i = 0; i < steps; ++i) {
      executor.forward({.seed = 5, .step = static_cast<std::uint64_t>(i), .inverse_samples = 1.0f / batch});
      executor.backward();
      executor.update();
    }
    return state_of(parameters, o, "conv1/weights", "a_factor");
  };
  const Array all = factor(0, 1), few = factor(16, 1), mean = factor(16, 60);
  EXPECT_GT(relative_error(few, all), 0.1);
  EXPECT_LT(relative_error(mean, all), 0.25);
  EXPECT_NEAR(few[few.elements() - 1], all[all.elements() - 1], 1e-4) << "the number of positions";
}

TEST_P(KfacTest, ObservesInItsStepsAlone) {
  const Graph graph = images();
  Kfac o;
  o.factor_update_steps = 7;
  o.inv_update_steps = 21;
  Parameters parameters(graph, ctx(), 1);
  Executor executor(graph, parameters, {.batch = batch, .optimizer = &o});
  int factors = 0, inverses = 0;
  for (const PlanRow& r : executor.rows()) {
    const bool of_factors = r.op.starts_with("factor"), of_inverses = r.op == "inverses";
    factors += of_factors ? 1 : 0;
    inverses += of_inverses ? 1 : 0;
    if (of_factors || of_inverses || r.phase == "forward") {
      EXPECT_EQ(r.period, of_factors ? 7u : of_inverses ? 21u : 1u) << r.node << ": " << r.op;
    }
  }
  EXPECT_EQ(factors, 4 * 3) << "A, G and the running means of each layer";
  EXPECT_EQ(inverses, 1);
  // Nobody observes for another optimizer.
  const Sgd sgd;
  Parameters plain(graph, ctx(), 1);
  for (const PlanRow& r : Executor(graph, plain, {.batch = batch, .optimizer = &sgd}).rows()) EXPECT_EQ(r.period, 1u);
}

TEST_P(KfacTest, LeavesOtherLayersPlain) {
  Graph g;
  const Var x = g.input("x", {4}, DType::s32), y = g.input("y", {4}, DType::s32);
  const Var h = lstm(embedding(x, {9, 6}, "embedding"), {.hidden = 6}, "lstm");
  loss(dense(dense(h, 6, "hidden"), {.features = 9, .weights_of = "embedding"}, "out"), y,
       {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  Kfac o;
  Parameters parameters(g, ctx(), 1);
  const Executor executor(g, parameters, {.batch = 2, .optimizer = &o});
  const int a = number_of(o, "a_factor");
  for (const auto& p : parameters.all()) {
    const bool observed = p.name == "hidden/weights" || p.name.ends_with("_input/weights");
    EXPECT_EQ(p.has(a), observed) << p.name;
  }
  Kfac few;
  few.plain_above = 6;
  Parameters others(g, ctx(), 1);
  const Executor with_few(g, others, {.batch = 2, .optimizer = &few});
  EXPECT_FALSE(others.at("hidden/weights").has(a)) << "7 rows with the bias";
}

/// The last micro-batch alone.
TEST_P(KfacTest, TakesTheFactorsOfTheLastMicroBatch) {
  const Graph graph = images();
  Kfac o;
  Parameters parameters(graph, ctx(), 1);
  Executor executor(graph, parameters, {.batch = 4, .micro_batch_count = 2, .optimizer = &o});
  Array last;
  for (std::int64_t m = 0; m < 2; ++m) {
    last = oracle::random_uniform({2, 3, 8, 8}, fmt::format("x{}", m));
    set_input(ctx(), executor, "x", last);
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 2}, fmt::format("y{}", m)));
    executor.forward({.inverse_samples = 0.25f, .learning_rate = 0.1f}, m);
    executor.backward(m);
  }
  executor.update();
  Array a = oracle::products_of_rows(oracle::patch_rows(last, same_window(last.shape, 1), true));
  for (double& v : a.data) v /= 2;
  EXPECT_TRUE(
      close(state_of(parameters, o, "conv1/weights", "a_factor"), oracle::diagonal_blocks(a, 0), "A", {1e-4, 1e-4}));
}

/// Factors are f32 whatever the layers multiply; a step whose gradients are infinite leaves them alone.
TEST_P(KfacTest, TrainsInSixteenBits) {
  const Graph graph = images();
  Kfac o;
  o.factor_update_steps = o.inv_update_steps = 2;
  const auto factor = [&](Precision precision) {
    Parameters parameters(graph, ctx(), 1);
    Executor executor(graph, parameters, {.batch = batch, .precision = precision, .optimizer = &o});
    for (std::uint64_t i = 0; i < 3; ++i) {
      set_input(ctx(), executor, "x", oracle::random_uniform({batch, 3, 8, 8}, "x"));
      set_input(ctx(), executor, "y", oracle::random_uniform({batch, 2}, "y"));
      if (precision == Precision::fp16 && i == 0)
        set_input(ctx(), executor, "y", Array({batch, 2}, std::numeric_limits<double>::infinity()));
      executor.forward({.step = i, .inverse_samples = 1.0f / batch, .learning_rate = 0.01f});
      executor.backward();
      executor.update();
      if (precision != Precision::fp16 || i != 1) continue;
      for (const double v : state_of(parameters, o, "conv1/weights", "a_factor").data) EXPECT_EQ(v, 0);
    }
    for (const auto& p : parameters.all()) EXPECT_TRUE(all_finite(as_array(p.shape, parameters.get(p)))) << p.name;
    return state_of(parameters, o, "conv1/weights", "a_factor");
  };
  const Array exact = factor(Precision::fp32);
  EXPECT_LT(relative_error(factor(Precision::bf16), exact), 0.01);
  EXPECT_LT(relative_error(factor(Precision::fp16), exact), 0.01);
}

TEST_P(KfacTest, RefusesWhatItCannotDo) {
  const auto refusal = [&](const Graph& g, const Kfac& o, PlanOptions options = {}) {
    Parameters parameters(g, ctx(), 1);
    options.optimizer = &o;
    try {
      const Executor executor(g, parameters, options);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  Graph wide;
  mse(dense(wide.input("x", {8193}), 1, "out"), wide.input("y", {1}));
  Kfac o;
  EXPECT_EQ(refusal(wide, o), "nothing");
  o.block_size = 0;
  expect(refusal(wide, o), "plain_above");
  expect(refusal(wide, o), "block_size");
  o.plain_above = 8192;
  EXPECT_EQ(refusal(wide, o), "nothing");
  const Graph graph = images();
  expect(refusal(graph, Kfac(), {.batch = 2, .exchange = {.reproducible = true}}), "--reproducible");
  Kfac wrong;
  wrong.damping = -1;
  expect(refusal(graph, wrong), "damping");
  wrong = {};
  wrong.factor_update_steps = 0;
  expect(refusal(graph, wrong), "factor_update_steps");
  wrong = {};
  wrong.inv_update_delay = 10;
  expect(refusal(graph, wrong), "expected 0 to 9");
  for (const std::int32_t rows : {-1, 8193}) {
    wrong = {};
    wrong.block_size = rows;
    expect(refusal(graph, wrong), "block_size");
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, KfacTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
