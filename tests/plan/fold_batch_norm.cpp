#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Batch normalization that plans without training fold into the convolution before it.
namespace keelson::testing {
namespace {

/// From a value (N, 8, 40, 48), by a convolution "a" and the normalization of its result.
using Build = std::function<Var(Var)>;

Graph network_of(const Build& build) {
  Graph g;
  const Var x = g.input("x", {8, 40, 48});
  g.set_output("prediction", build(x));
  return g;
}

struct FoldedNetwork {
  std::string name;
  Build build;
};

Var normalized(Var v) { return batch_norm(v, {.epsilon = 1e-3f}, "bn"); }

/// Networks whose normalization is folded.
const std::vector<FoldedNetwork>& folded_networks() {
  static const std::vector<FoldedNetwork> all{
      {"with_bias", [](Var x) { return relu(normalized(conv(x, {.filters = 6}, "a"))); }},
      {"without_bias", [](Var x) { return relu(normalized(conv(x, {.filters = 6, .bias = false}, "a"))); }},
      {"without_activation", [](Var x) { return normalized(conv(x, {.filters = 6}, "a")); }},
      {"strided", [](Var x) { return relu(normalized(conv(x, {.filters = 16, .stride = 2}, "a"))); }},
      {"depthwise", [](Var x) { return relu(normalized(conv(x, {.filters = 8, .groups = 8, .bias = false}, "a"))); }},
      {"grouped", [](Var x) { return relu(normalized(conv(x, {.filters = 6, .groups = 2}, "a"))); }},
      {"pooled", [](Var x) { return max_pool(relu(normalized(conv(x, {.filters = 16, .bias = false}, "a"))), 2); }},
      {"transposed",
       [](Var x) { return relu(normalized(transposed_conv(x, {.filters = 6, .stride = 2, .bias = false}, "a"))); }},
      {"transposed_with_bias", [](Var x) { return sigmoid(normalized(transposed_conv(x, {.filters = 6}, "a"))); }},
      {"in_the_middle",
       [](Var x) {
         const Var a = relu(normalized(conv(relu(conv(x, {.filters = 6}, "before")), {.filters = 6}, "a")));
         return add({a, conv(a, {.filters = 6, .size = 1}, "behind")});
       }},
  };
  return all;
}

/// Values, as if the network had been trained, for all parameters that have memory.
void randomize(Parameters& parameters) {
  for (Parameter& p : parameters.all()) {
    const bool positive = p.name.ends_with("variance");
    const Array a = oracle::random_uniform(p.shape, p.name, positive ? 0.25 : -1, positive ? 3 : 1);
    parameters.set(p, std::vector<float>(a.data.begin(), a.data.end()));
  }
}

std::int64_t calls_of(const std::vector<PlanRow>& rows, const std::string& op) {
  return std::count_if(rows.begin(), rows.end(), [&](const PlanRow& r) { return r.op == op; });
}

std::vector<std::string> ops_of(const Graph& g, Context& ctx, bool training, std::int64_t batch = 2) {
  Parameters parameters(g, ctx, 1);
  std::vector<std::string> ops;
  for (const auto& row : Plan(g, parameters, {.batch = batch, .training = training}).rows())
    if (row.op != "reorder" && row.op != "convert") ops.push_back(row.op);
  return ops;
}

class FoldBatchNormPlan : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  Array predict(Executor& executor, const Array& x) {
    set_input(ctx(), executor, "x", x);
    executor.forward({});
    return get_output(ctx(), executor, "prediction");
  }
  /// The folded network against the one without fusion, on the same parameters.
  void compare(const Graph& g, Precision precision, double tolerance) {
    Parameters parameters(g, ctx(), 1);
    const Array x = oracle::random_uniform({2, 8, 40, 48}, "x");
    Executor apart(g, parameters, {.batch = 2, .training = false, .fuse = false, .precision = precision});
    Executor folded(g, parameters, {.batch = 2, .training = false, .precision = precision});
    randomize(parameters);
    EXPECT_EQ(calls_of(apart.rows(), "batch_norm"), 1);
    EXPECT_EQ(calls_of(folded.rows(), "batch_norm"), 0);
    EXPECT_EQ(calls_of(folded.rows(), "fold batch_norm"), 1);
    EXPECT_LT(relative_error(predict(folded, x), predict(apart, x)), tolerance);
  }
};

TEST_P(FoldBatchNormPlan, ConvolutionNormalizationAndActivationAreOneCallAndAFold) {
  using Ops = std::vector<std::string>;
  for (const auto& n : folded_networks()) {
    const auto calls = ops_of(network_of(n.build), ctx(), false);
    if (n.name == "in_the_middle" || n.name == "pooled") continue;  // more calls
    const std::string op = n.name.starts_with("transposed") ? "transposed_conv" : "conv";
    EXPECT_EQ(calls, (Ops{"fold batch_norm", op})) << n.name;
  }
}

TEST_P(FoldBatchNormPlan, ResultsAreThoseOfTheUnfusedPlan) {
  for (const auto& n : folded_networks()) {
    SCOPED_TRACE(n.name);
    compare(network_of(n.build), Precision::fp32, 2e-6);
  }
}

TEST_P(FoldBatchNormPlan, In16BitsTheyAreNear) {
  for (const auto precision : {Precision::bf16, Precision::fp16})
    for (const auto& n : folded_networks()) {
      SCOPED_TRACE(n.name);
      compare(network_of(n.build), precision, precision == Precision::bf16 ? 0.03 : 0.004);
    }
}

TEST_P(FoldBatchNormPlan, OthersStayApart) {
  const std::vector<FoldedNetwork> others{
      {"another node reads the convolution",
       [](Var x) {
         const Var a = conv(x, {.filters = 6}, "a");
         return add({normalized(a), a});
       }},
      {"an activation stands between",
       [](Var x) { return normalized(relu(conv(x, {.filters = 6, .bias = false}, "a"))); }},
      {"a pooling stands between", [](Var x) { return normalized(max_pool(conv(x, {.filters = 6}, "a"), 2)); }},
      {"the channels of a group are no dimension of the weights",
       [](Var x) { return normalized(transposed_conv(x, {.filters = 6, .groups = 2}, "a")); }},
      {"the result is small beside the weights",
       [](Var x) { return relu(normalized(conv(x, {.filters = 32, .stride = 8}, "a"))); }},
      {"there is no convolution", [](Var x) { return relu(normalized(x)); }}};
  for (const auto& n : others) {
    const auto calls = ops_of(network_of(n.build), ctx(), false);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "fold batch_norm"), 0) << n.name;
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "batch_norm"), 1) << n.name;
  }
  Graph g;
  const Var a = conv(g.input("x", {8, 40, 48}), {.filters = 6}, "a");
  g.set_output("a", a);
  g.set_output("prediction", normalized(a));
  EXPECT_EQ(ops_of(g, ctx(), false), (std::vector<std::string>{"conv", "batch_norm"})) << "the caller reads a";
}

/// A fold costs the same for any batch, and what it saves grows with the batch.
TEST_P(FoldBatchNormPlan, LargeBatchesFoldWhatSmallOnesDoNot) {
  const Graph g =
      network_of([](Var x) { return relu(normalized(conv(x, {.filters = 32, .stride = 8, .bias = false}, "a"))); });
  EXPECT_EQ(ops_of(g, ctx(), false, 9), (std::vector<std::string>{"conv", "batch_norm", "relu"}));
  EXPECT_EQ(ops_of(g, ctx(), false, 10), (std::vector<std::string>{"fold batch_norm", "conv"}));
}

/// Two normalizations in a row: the first is folded.
TEST_P(FoldBatchNormPlan, FoldsOneOfTwo) {
  const Graph g = network_of([](Var x) { return batch_norm(normalized(conv(x, {.filters = 6}, "a")), {}, "second"); });
  EXPECT_EQ(ops_of(g, ctx(), false), (std::vector<std::string>{"fold batch_norm", "conv", "batch_norm"}));
}

/// Validation during training reads parameters and running statistics that training has just moved.
TEST_P(FoldBatchNormPlan, FollowsTrainingOnTheSameParameters) {
  Graph g;
  const Var x = g.input("x", {8, 40, 48}), y = g.input("y", {16 * 40 * 48});
  const Var h = relu(batch_norm(conv(x, {.filters = 16, .bias = false}, "a"), {.momentum = 0.5f}, "bn"));
  const Var z = batch_norm(transposed_conv(h, {.filters = 16}, "b"), {.momentum = 0.5f}, "bn2");
  g.set_output("prediction", z);
  mse(flatten(z), y);
  Parameters parameters(g, ctx(), 1);
  const Sgd sgd;
  Executor training(g, parameters, {.batch = 4, .optimizer = &sgd});
  std::map<std::string, Layout> layouts;
  for (const Parameter& p : parameters.all()) layouts[p.name] = p.value.layout();
  Executor folded(g, parameters, {.batch = 2, .training = false});
  Executor apart(g, parameters, {.batch = 2, .training = false, .fuse = false});
  for (const Parameter& p : parameters.all()) EXPECT_EQ(p.value.layout(), layouts[p.name]) << p.name;
  ASSERT_EQ(calls_of(folded.rows(), "fold batch_norm"), 2);

  const Array seen = oracle::random_uniform({2, 8, 40, 48}, "seen");
  Array before = predict(folded, seen);
  for (int step = 0; step < 3; ++step) {
    set_input(ctx(), training, "x", oracle::random_uniform({4, 8, 40, 48}, "x", step, step + 1.0));
    set_input(ctx(), training, "y", oracle::random_uniform({4, 16 * 40 * 48}, "y"));
    ops::StepParams now{.learning_rate = 0.1f};
    now.step = step;
    now.inverse_samples = 0.25f;
    training.forward(now);
    training.backward();
    training.update();
    const Array got = predict(folded, seen);
    EXPECT_LT(relative_error(got, predict(apart, seen)), 2e-6);
    EXPECT_GT(relative_error(got, before), 0.01) << "step " << step;
    before = got;
  }
}

/// In training, a ReLU behind a normalization is a part of the normalization: fewer calls, the same results.
TEST_P(FoldBatchNormPlan, TrainingNormalizesAndCutsOffInOneCall) {
  const auto build = [](bool tanh_between) {
    Graph g;
    Var x = conv(g.input("x", {4, 12, 10}), {.filters = 6, .bias = false}, "a");
    x = batch_norm(x, {}, "n");
    x = tanh_between ? relu(tanh(x), "r") : relu(x, "r");
    x = relu(batch_norm(conv(x, {.filters = 8, .bias = false}, "b"), {}, "m"), "s");
    g.set_loss(mse(dense(flatten(x), {.features = 3}, "prediction"), g.input("y", {3})));
    return g;
  };
  const auto relus = [&](const Graph& g) {
    Parameters parameters(g, ctx(), 1);
    const Sgd sgd;
    return calls_of(Plan(g, parameters, {.batch = 2, .optimizer = &sgd}).rows(), "relu");
  };
  EXPECT_EQ(relus(build(false)), 0);
  EXPECT_EQ(relus(build(true)), 1);
  const auto train = [&](bool fuse) {
    const Graph g = build(false);
    Parameters parameters(g, ctx(), 1);
    const Sgd sgd;
    Executor executor(g, parameters, {.batch = 2, .fuse = fuse, .optimizer = &sgd});
    set_input(ctx(), executor, "x", oracle::random_uniform({2, 4, 12, 10}, "x"));
    set_input(ctx(), executor, "y", oracle::random_uniform({2, 3}, "y"));
    Array all(Shape{parameters.count()});
    std::int64_t at = 0;
    for (int i = 0; i < 3; ++i) {
      executor.forward({.inverse_samples = 0.5f, .learning_rate = 0.1f});
      executor.backward();
      executor.update();
    }
    for (const auto& p : parameters.all())
      for (const float v : parameters.get(p)) all[at++] = v;
    return all;
  };
  EXPECT_LT(relative_error(train(true), train(false)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Plan, FoldBatchNormPlan, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
