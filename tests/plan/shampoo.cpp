#include "engine/optim/shampoo.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "tests/oracle/ops.hpp"
#include "tests/oracle/shampoo.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Whole steps of Shampoo: reference values, the oracle, and what must hold of them.
namespace keelson::testing {
namespace {

/// In a build without LAPACK Shampoo has no roots.
bool has_roots(Context& where) {
  return where.try_make(ops::InverseRootsDesc{{TensorDesc::plain({1, 2, 2})}, {{0, 0, 2, 2}}, 1e-6f}) != nullptr;
}

class ShampooTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_roots(ctx())) GTEST_SKIP() << "this build has no LAPACK";
  }
  Context& ctx() { return context(GetParam()); }

  static Array as_array(const Shape& shape, const std::vector<float>& v) {
    return {shape, std::vector<double>(v.begin(), v.end())};
  }
  static std::vector<float> floats(const Array& a) { return {a.data.begin(), a.data.end()}; }

  /// One dense layer of a parameter whose gradients are these: the weights, from the unit vectors as samples, or the
  /// bias, behind weights that get none. Returns the parameter after the steps.
  Array moved(const Shampoo& optimizer, const Array& start, const std::vector<Array>& gradients, double lr) {
    const bool is_bias = start.shape.rank() == 1;
    const std::int64_t outputs = start.shape[0], inputs = is_bias ? 1 : start.shape[1], batch = is_bias ? 1 : inputs;
    Graph g;
    mse(dense(g.input("x", {inputs}), {.features = outputs, .bias = is_bias}, "out"), g.input("y", {outputs}));
    Parameters parameters(g, ctx(), 1);
    Parameter& p = parameters.at(is_bias ? "out/bias" : "out/weights");
    parameters.set(p, floats(start));
    Executor executor(g, parameters, {.batch = batch, .optimizer = &optimizer});
    Array x({batch, inputs});
    for (std::int64_t i = 0; i < batch && !is_bias; ++i) x[i * inputs + i] = 1;
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      const auto now = parameters.get(p);
      Array y({batch, outputs});
      for (std::int64_t s = 0; s < batch; ++s)
        for (std::int64_t o = 0; o < outputs; ++o) {
          const std::int64_t e = is_bias ? o : o * inputs + s;
          y[s * outputs + o] = now[static_cast<std::size_t>(e)] - gradients[t][e] * static_cast<double>(outputs) / 2;
        }
      set_input(ctx(), executor, "x", x);
      set_input(ctx(), executor, "y", y);
      executor.forward({.step = t, .inverse_samples = 1, .learning_rate = static_cast<float>(lr)});
      executor.backward();
      const Array found = as_array(start.shape, executor.gradient(p.name));
      EXPECT_TRUE(close(found, gradients[t], "the gradient", {1e-6, 1e-6}));
      executor.update();
    }
    return as_array(start.shape, parameters.get(p));
  }
};

/// Three steps, computed apart in float64: gW_i = sin(1 + i + 2 t), gb_j = cos(j + t), t = 1, 2, 3.
struct Reference {
  Array start;
  std::vector<Array> gradients;
  Array original, grafted;  ///< results
};
Reference reference_weights() {
  Reference r{
      .start = {{2, 3}, {.1, -.2, .3, -.4, .5, -.6}},
      .original = {{2, 3},
                   {.155951852516, -.150681571955, .297341868272, -.368079826508, .502460822806, -.629260997019}},
      .grafted = {{2, 3},
                  {.119998651506, -.178665293741, .303055730467, -.389191534228, .496243612524, -.614867635402}}};
  for (int t = 1; t <= 3; ++t) {
    Array& g = r.gradients.emplace_back(r.start.shape);
    for (int i = 0; i < 6; ++i) g[i] = std::sin(1.0 + i + 2 * t);
  }
  return r;
}
Reference reference_bias() {
  Reference r{.start = {{3}, {-.05, 0, .05}},
              .original = {{3}, {.0259220946418, .154847770023, .141407119762}},
              .grafted = {{3}, {-.0505938164384, .025629922125, .0782896284852}}};
  for (int t = 1; t <= 3; ++t) {
    Array& g = r.gradients.emplace_back(r.start.shape);
    for (int j = 0; j < 3; ++j) g[j] = std::cos(static_cast<double>(j + t));
  }
  return r;
}

constexpr oracle::ShampooSettings original_settings{.epsilon = 1e-4};
constexpr oracle::ShampooSettings grafted_settings(double epsilon) {
  return {.beta1 = 0.9, .beta2 = 0.999, .epsilon = epsilon, .grafting = ops::Graft::adam};
}
Shampoo shampoo_of(const oracle::ShampooSettings& s) {
  Shampoo o;
  o.beta1 = static_cast<float>(s.beta1);
  o.beta2 = static_cast<float>(s.beta2);
  o.epsilon = static_cast<float>(s.epsilon);
  o.grafting = s.grafting;
  o.weight_decay = static_cast<float>(s.decay);
  o.step_momentum = static_cast<float>(s.momentum);
  o.precondition_frequency = static_cast<std::int32_t>(s.period);
  o.start_preconditioning_step = static_cast<std::int32_t>(s.start);
  o.precondition_delay = static_cast<std::int32_t>(s.delay);
  return o;
}

TEST(ShampooReference, OfTheOracle) {
  const auto check = [](const Reference& r, const oracle::ShampooSettings& o, double lr, const Array& want) {
    oracle::ShampooState s(r.start);
    for (std::size_t t = 0; t < r.gradients.size(); ++t) oracle::shampoo(s, r.gradients[t], o, t, lr);
    for (std::int64_t i = 0; i < want.elements(); ++i) EXPECT_NEAR(s.param[i], want[i], 1e-7) << i;
  };
  const Reference w = reference_weights(), b = reference_bias();
  check(w, original_settings, 0.1, w.original);
  check(b, original_settings, 0.1, b.original);
  check(w, grafted_settings(1e-12), 0.01, w.grafted);
  check(b, grafted_settings(1e-6), 0.01, b.grafted);
}

TEST_P(ShampooTest, ReachesTheReferenceValues) {
  const auto check = [this](const Reference& r, const oracle::ShampooSettings& o, double lr, const Array& want) {
    const Array got = moved(shampoo_of(o), r.start, r.gradients, lr);
    for (std::int64_t i = 0; i < want.elements(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
  };
  const Reference w = reference_weights(), b = reference_bias();
  check(w, original_settings, 0.1, w.original);
  check(b, original_settings, 0.1, b.original);
  check(w, grafted_settings(1e-12), 0.01, w.grafted);
  check(b, grafted_settings(1e-6), 0.01, b.grafted);
}

/// Rotated rows of parameter and gradients give the rotated parameter.
TEST_P(ShampooTest, TurnsWithTheRows) {
  const Reference r = reference_weights();
  const double angle = 0.7;
  const Array turn({2, 2}, {std::cos(angle), -std::sin(angle), std::sin(angle), std::cos(angle)});
  std::vector<Array> turned;
  for (const Array& g : r.gradients) turned.push_back(oracle::multiply_along(g, turn, 0));
  const Shampoo optimizer = shampoo_of(original_settings);
  const Array apart = moved(optimizer, oracle::multiply_along(r.start, turn, 0), turned, 0.1);
  const Array want = oracle::multiply_along(moved(optimizer, r.start, r.gradients, 0.1), turn, 0);
  EXPECT_TRUE(close(apart, want, "turned", {1e-5, 1e-5}));
}

/// A parameter of one element is AdaGrad's, with epsilon inside the root.
TEST_P(ShampooTest, IsAdaGradForANumber) {
  const Array start({1}, 0.5);
  const std::vector<Array> gradients{Array({1}, 0.3), Array({1}, -2), Array({1}, 0.01)};
  double w = 0.5, sum = 0;
  for (const Array& g : gradients) {
    sum += g[0] * g[0];
    w -= 0.1 * g[0] / std::sqrt(sum + 1e-4);
  }
  EXPECT_NEAR(moved(shampoo_of(original_settings), start, gradients, 0.1)[0], w, 1e-6);
}

Graph layers_of_all_kinds() {
  Graph g;
  const Var x = g.input("x", {3, 6, 6}), y = g.input("y", {2});
  const Var h = relu(conv(x, {.filters = 5, .size = 3, .padding = Padding::same}, "conv"));
  mse(dense(relu(dense(flatten(h), 7, "hidden")), 2, "out"), y);
  return g;
}

/// Eight steps of a network, whose roots are of the steps 1, 4 and 7, or are used two steps later. The oracle gets the
/// plan's gradients, and parameters in the order of merged dimensions.
TEST_P(ShampooTest, MatchesTheOracleInANetwork) {
  for (const auto method : {ops::Graft::none, ops::Graft::sgd, ops::Graft::adagrad, ops::Graft::adam})
    for (const bool merges : {false, true}) {
      const oracle::ShampooSettings settings{.beta1 = 0.9,
                                             .beta2 = 0.95,
                                             .epsilon = 1e-3,
                                             .momentum = 0.5,
                                             .decay = 0.01,
                                             .grafting = method,
                                             .period = 3,
                                             .start = 1,
                                             .delay = merges ? 0U : 2U};
      Shampoo optimizer = shampoo_of(settings);
      optimizer.use_merge_dims = merges;
      optimizer.clip_norm = 0.5f;
      const Graph g = layers_of_all_kinds();
      Parameters parameters(g, ctx(), 1);
      Executor executor(g, parameters, {.batch = 2, .optimizer = &optimizer});
      std::map<std::string, oracle::ShampooState> states;
      const auto merged = [&](const Parameter& p) { return merges ? merge_small_dims(p.shape, 1024) : p.shape; };
      for (const auto& p : parameters.all()) states.emplace(p.name, as_array(merged(p), parameters.get(p)));
      for (std::uint64_t step = 0; step < 8; ++step) {
        set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 6, 6}, fmt::format("x{}", step)));
        set_input(ctx(), executor, "y", oracle::random_uniform({2, 2}, fmt::format("y{}", step), 3, 5));
        executor.forward({.step = step, .inverse_samples = 0.5f, .learning_rate = 0.01f});
        executor.backward();
        std::map<std::string, Array> gradients;
        double squares = 0;
        for (const auto& p : parameters.all()) {
          gradients[p.name] = as_array(merged(p), executor.gradient(p.name));
          squares += oracle::sum_squares(gradients[p.name]);
        }
        ASSERT_GT(squares, 0.25) << "the global norm is clipped";
        executor.update();
        for (const auto& p : parameters.all()) {
          for (double& v : gradients[p.name].data) v *= 0.5 / std::sqrt(squares);
          oracle::ShampooState& s = states.at(p.name);
          s.param = as_array(s.param.shape, floats(s.param));
          oracle::shampoo(s, gradients[p.name], settings, step, 0.01);
          const auto what =
              fmt::format("{} after step {} with {}, merged {}", p.name, step, ops::to_string(method), merges);
          EXPECT_TRUE(close(as_array(s.param.shape, parameters.get(p)), s.param, what, {2e-5, 2e-5}));
        }
      }
    }
}

/// Blocks are as parameters of their own, but for the graft, which has the length of the whole.
TEST_P(ShampooTest, CutsLargeDimensionsIntoBlocks) {
  const Shape shape{4, 5};
  const Array start = oracle::random_uniform(shape, "start");
  std::vector<Array> gradients;
  for (int t = 0; t < 3; ++t) gradients.push_back(oracle::random_uniform(shape, fmt::format("g{}", t)));
  Shampoo optimizer = shampoo_of(original_settings);
  optimizer.max_preconditioner_dim = 3;  // blocks of 2 x 3 and 2 x 2
  const KroneckerBlocks blocks = optimizer.blocks_of(shape);
  EXPECT_EQ(blocks.count(), 4);
  EXPECT_EQ(blocks.factors(1), (Shape{4, 3, 3}));
  const Array got = moved(optimizer, start, gradients, 0.1);
  for (const std::int64_t row : {0, 2})
    for (const std::int64_t column : {0, 3}) {
      const Shape part{2, column == 0 ? 3 : 2};
      const auto block_of = [&](const Array& a) {
        Array b(part);
        for (std::int64_t i = 0; i < 2; ++i)
          for (std::int64_t j = 0; j < part[1]; ++j) b[i * part[1] + j] = a[(row + i) * 5 + column + j];
        return b;
      };
      oracle::ShampooState s(block_of(start));
      for (std::size_t t = 0; t < gradients.size(); ++t)
        oracle::shampoo(s, block_of(gradients[t]), original_settings, t, 0.1);
      EXPECT_TRUE(close(block_of(got), s.param, fmt::format("block at {}, {}", row, column), {1e-5, 1e-5}));
    }
}

TEST_P(ShampooTest, CountsItsMatricesAsState) {
  const Graph g = layers_of_all_kinds();
  const auto state_bytes = [&](const Optimizer& o) {
    Parameters parameters(g, ctx(), 1);
    const Plan plan(g, parameters, {.batch = 2, .optimizer = &o});
    for (const auto& [what, bytes] : plan.memory())
      if (what == "optimizer state") return bytes;
    return std::size_t{0};
  };
  Shampoo optimizer;
  std::size_t matrices = 0, arrays = 0;
  Parameters parameters(g, ctx(), 1);
  for (const auto& p : parameters.all()) {
    const KroneckerBlocks blocks = optimizer.blocks_of(p.shape);
    for (int i = 0; i < blocks.rank(); ++i) matrices += 2 * static_cast<std::size_t>(blocks.factors(i).elements());
    arrays += 2 * static_cast<std::size_t>(p.shape.elements());
  }
  EXPECT_GE(state_bytes(optimizer), (matrices + arrays) * sizeof(float));
  EXPECT_LE(state_bytes(optimizer), (matrices + arrays) * sizeof(float) + 4096) << "a backend's padding";
}

INSTANTIATE_TEST_SUITE_P(Contexts, ShampooTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(ShampooSettings, AreChecked) {
  Context& where = context(network_contexts().back());
  if (!has_roots(where)) GTEST_SKIP() << "this build has no LAPACK";
  const Graph g = layers_of_all_kinds();
  const auto refusal = [&](const std::function<void(Shampoo&)>& change) {
    Shampoo optimizer;
    change(optimizer);
    Parameters parameters(g, where, 1);
    try {
      const Plan plan(g, parameters, {.batch = 2, .optimizer = &optimizer});
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal([](Shampoo&) {}), "nothing");
  expect(refusal([](Shampoo& o) { o.epsilon = 0; }), "epsilon of Shampoo is 0");
  expect(refusal([](Shampoo& o) { o.beta1 = 1; }), "beta1");
  expect(refusal([](Shampoo& o) { o.precondition_frequency = 0; }), "precondition_frequency");
  expect(refusal([](Shampoo& o) { o.precondition_delay = 19; }), "nothing");
  expect(refusal([](Shampoo& o) { o.precondition_delay = 20; }), "expected 0 to 19");
  expect(refusal([](Shampoo& o) { o.max_preconditioner_dim = 100000; }), "1 to 8192");
  expect(refusal([](Shampoo& o) { o.max_preconditioner_dim = 0; }), "1 to 8192");
}

}  // namespace
}  // namespace keelson::testing
