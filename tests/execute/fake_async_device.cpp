#include <gtest/gtest.h>

#include <algorithm>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/support/networks.hpp"

/// Plans on a device that the host does not share memory with and does not wait for, with 16-bit values, recordings and
/// a scale of gradients: a GPU as the engine sees it.
namespace keelson::testing {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<float> parameters;
};

/// Some steps of training.
Outcome train(Context& context, const Graph& graph, Precision precision, const Optimizer& optimizer, int steps = 5) {
  Parameters parameters(graph, context, 1);
  Executor executor(graph, parameters, {.batch = 2, .precision = precision, .optimizer = &optimizer});
  Outcome o;
  for (int i = 0; i < steps; ++i) {
    fill_inputs(context, executor, i);
    ops::StepParams step_params{
        .seed = 3, .step = static_cast<std::uint64_t>(i), .inverse_samples = 0.5f, .learning_rate = 0.05f};
    executor.forward(step_params);
    executor.backward();
    executor.update();
    executor.carry_states();
    executor.start_readback();
    if (i > 0) o.losses.push_back(executor.take_readback().loss);
  }
  o.losses.push_back(executor.take_readback().loss);
  for (const auto& p : parameters.all()) {
    const auto values = parameters.get(p);
    o.parameters.insert(o.parameters.end(), values.begin(), values.end());
  }
  return o;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  const auto flat = [](const std::vector<float>& v) {
    return Array({static_cast<std::int64_t>(v.size())}, std::vector<double>(v.begin(), v.end()));
  };
  return relative_error(flat(a), flat(b));
}

Sgd momentum() {
  Sgd o;
  o.momentum = 0.9f;
  o.clip_norm = 2;
  return o;
}

class FakeAsyncPlanTest : public ::testing::TestWithParam<const char*> {
 protected:
  Graph graph() const { return GetParam() == std::string("volumes") ? volumes() : words(); }
  std::unique_ptr<Context> fake = make_fake_async_context();
};

TEST_P(FakeAsyncPlanTest, StepsAreRecordedAndCompute) {
  const Graph g = graph();
  const auto optimizer = momentum();
  const auto got = train(*fake, g, Precision::fp32, optimizer);
  EXPECT_GE(fake_async_device(*fake).launches(), 3 * 3);  // forward, backward, update from the third step on
  // The same, with every call made for itself: the first step of each plan is not recorded.
  const auto again = make_fake_async_context();
  const auto first = train(*again, g, Precision::fp32, optimizer, 1);
  EXPECT_EQ(fake_async_device(*again).launches(), 0);
  EXPECT_EQ(first.losses[0], got.losses[0]);
  EXPECT_LT(got.losses.back(), got.losses.front() * 2);
}

/// The device orders what executors on two instances do with the same parameters and the same arena.
TEST_P(FakeAsyncPlanTest, ExecutorsOnTwoInstancesTakeTurnsOnTheSameParameters) {
  const Graph g = graph();
  const auto optimizer = momentum();
  const auto outcome = [&](bool apart) {
    Device& device = fake->device();
    const auto other = device.make_instance();
    Parameters parameters(g, *fake, 1);
    const Plan plan(g, parameters, {.batch = 2, .optimizer = &optimizer});
    Executor executors[2] = {{plan, parameters}, {plan, parameters, {.instance = apart ? other : nullptr}}};
    for (int i = 0; i < 6; ++i) {
      Executor& executor = executors[i % 2];
      const InstanceScope scope(i % 2 && apart ? *other : device.current_instance());
      fill_inputs(*fake, executor, i);
      executor.forward(
          {.seed = 3, .step = static_cast<std::uint64_t>(i), .inverse_samples = 0.5f, .learning_rate = 0.05f});
      executor.backward();
      executor.update();
    }
    std::vector<float> values;
    for (const auto& p : parameters.all())
      for (const float v : parameters.get(p)) values.push_back(v);
    return values;
  };
  EXPECT_EQ(outcome(true), outcome(false));
}

TEST_P(FakeAsyncPlanTest, ShortValuesAreNearLongOnes) {
  const Graph g = graph();
  const auto optimizer = momentum();
  const auto exact = train(*fake, g, Precision::fp32, optimizer);
  for (const auto& [precision, most] : {std::pair{Precision::bf16, 0.02}, {Precision::fp16, 0.003}}) {
    const auto rounded = train(*fake, g, precision, optimizer);
    EXPECT_LT(difference(rounded.parameters, exact.parameters), most) << to_string(precision);
    EXPECT_NE(rounded.parameters, exact.parameters);
    for (std::size_t i = 0; i < exact.losses.size(); ++i)
      EXPECT_NEAR(rounded.losses[i], exact.losses[i], 4 * most * exact.losses[i]) << to_string(precision);
  }
}

/// What lies between two layers is short, and nothing is turned round inside the network.
TEST_P(FakeAsyncPlanTest, KeepsShortValuesBetweenLayers) {
  const Graph g = graph();
  const auto optimizer = momentum();
  Parameters parameters(g, *fake, 1);
  const Executor executor(g, parameters, {.batch = 2, .precision = Precision::bf16, .optimizer = &optimizer});
  EXPECT_TRUE(executor.plan().reorders().empty()) << executor.plan().reorders().front();
  std::vector<std::string> converted;
  for (const auto& row : executor.rows())
    if (row.op == "convert") converted.push_back(row.node);
  // The input and each matrix of weights in either pass; gradients of what the loss reads.
  const std::size_t most = GetParam() == std::string("volumes") ? 1 + 4 + 2 : 5 + 2;
  EXPECT_LE(converted.size(), most);
}

/// Inputs that the caller converts: the plan has no call for them, and the same results.
TEST_P(FakeAsyncPlanTest, TakesInputsAsTheirReaderWantsThem) {
  const Graph g = graph();
  const auto optimizer = momentum();
  int conversions[2] = {};
  DType type[2];
  const auto outcome = [&](bool as_read) {
    Parameters parameters(g, *fake, 1);
    Executor executor(g, parameters,
                      {.batch = 2, .precision = Precision::bf16, .optimizer = &optimizer, .inputs_as_read = as_read});
    Outcome o;
    for (int i = 0; i < 3; ++i) {
      fill_inputs(*fake, executor, i);
      executor.forward(
          {.seed = 3, .step = static_cast<std::uint64_t>(i), .inverse_samples = 0.5f, .learning_rate = 0.05f});
      executor.backward();
      executor.update();
      executor.carry_states();
      o.losses.push_back(executor.loss());
    }
    for (const auto& p : parameters.all())
      for (const float v : parameters.get(p)) o.parameters.push_back(v);
    for (const auto& row : executor.rows()) conversions[as_read] += row.op == "convert";
    type[as_read] = executor.input("x").dtype();
    return o;
  };
  const auto converted = outcome(false), as_read = outcome(true);
  EXPECT_EQ(as_read.losses, converted.losses);
  EXPECT_EQ(as_read.parameters, converted.parameters);
  const bool volumes = GetParam() == std::string("volumes");
  EXPECT_EQ(conversions[1], conversions[0] - volumes);
  EXPECT_EQ(type[0], volumes ? DType::f32 : DType::s32);
  EXPECT_EQ(type[1], volumes ? DType::bf16 : DType::s32);
}

/// Updates of parameters do not depend on each other: a device may run their kernels together, in any order.
TEST_P(FakeAsyncPlanTest, UpdatesRunTogether) {
  const Graph g = graph();
  const Sgd sgd = momentum();
  const Lars lars;
  const Lamb lamb;
  const Muon muon;
  for (const Optimizer* optimizer : {static_cast<const Optimizer*>(&sgd), static_cast<const Optimizer*>(&lars),
                                     static_cast<const Optimizer*>(&lamb), static_cast<const Optimizer*>(&muon)}) {
    const auto alone = make_fake_async_context(), together = make_fake_async_context();
    fake_async_device(*alone).set_merges_launches(false);
    const auto expected = train(*alone, g, Precision::fp32, *optimizer);
    const auto got = train(*together, g, Precision::fp32, *optimizer);
    EXPECT_EQ(got.losses, expected.losses) << optimizer->to_string();
    EXPECT_EQ(got.parameters, expected.parameters) << optimizer->to_string();
    EXPECT_EQ(fake_async_device(*alone).calls_run_together(), 0);
    EXPECT_GT(fake_async_device(*together).calls_run_together(), 0) << optimizer->to_string();
  }
}

/// In fp16: gradients that overflow move nothing, no state either, and halve the scale.
void expect_skips(Context& context, const Graph& g, const Optimizer& optimizer) {
  Parameters parameters(g, context, 1);
  Executor executor(g, parameters, {.batch = 2, .precision = Precision::fp16, .optimizer = &optimizer});
  EXPECT_EQ(executor.loss_scale().scale, 65536);
  executor.set_loss_scale({.scale = 0x1p24f});
  const auto values = [&] {
    std::vector<float> all;
    for (const auto& p : parameters.all()) {
      for (int which = -1; which < static_cast<int>(p.moments.size()); ++which) {
        const auto v = parameters.get(p, which);
        all.insert(all.end(), v.begin(), v.end());
      }
    }
    return all;
  };
  const auto before = values();
  int skipped = 0;
  for (int i = 0; i < 30; ++i) {
    fill_inputs(context, executor, 0);
    const auto last = values();
    executor.forward({.inverse_samples = 4, .learning_rate = 0.01f});
    executor.backward();
    executor.update();
    executor.start_readback();
    const auto result = executor.take_readback();
    EXPECT_TRUE(std::isfinite(result.loss));
    if (result.loss_scale.skip) {
      ++skipped;
      EXPECT_EQ(values(), last);
      EXPECT_EQ(result.loss_scale.scale, 0x1p24f / static_cast<float>(1 << skipped));
    } else {
      EXPECT_NE(values(), last);
    }
    EXPECT_EQ(result.loss_scale.skipped, skipped);
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 20);
  EXPECT_NE(values(), before);
}

TEST_P(FakeAsyncPlanTest, ScaleOfGradientsFallsWhereTheyOverflowAndNothingMoves) {
  expect_skips(*fake, graph(), momentum());
  expect_skips(*make_fake_async_context(), graph(), Lars());
  expect_skips(*make_fake_async_context(), graph(), Lamb());
  expect_skips(*make_fake_async_context(), graph(), Muon());
}

INSTANTIATE_TEST_SUITE_P(FakeAsync, FakeAsyncPlanTest, ::testing::Values("volumes", "words"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keelson::testing
