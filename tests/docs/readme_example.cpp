// The program of docs/cpp.md, of which README.md shows parts, as it stands there (tests/cli/test_readme.py compares
// them), and the proof that it learns.
#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"

#include <vector>

#include "backends/registry.hpp"
#include "engine/base/philox.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"

using namespace keelson;

/// Learns the amplitude of the noise in cubes of 8^3 voxels. Returns the loss of the last step.
double train(Context& context, int steps) {
  Graph net;
  const Var x = net.input("x", {1, 8, 8, 8}), y = net.input("y", {1});
  Var h = relu(conv(x, {.filters = 8, .size = 3}, "conv1"));
  h = flatten(average_pool(h, 8));
  mse(dense(h, 1, "head"), y);

  Parameters parameters(net, context, /*seed=*/1);
  Adam adam;
  Executor executor(net, parameters, {.batch = 16, .optimizer = &adam});

  ops::StepParams step_params;
  step_params.inverse_samples = 1.0f / 16;  // 1 / samples of the step, of all ranks together
  step_params.learning_rate = 0.01f;
  std::vector<float> cubes(16 * 512), amplitudes(16);
  for (; step_params.step < static_cast<std::uint64_t>(steps); ++step_params.step) {
    const philox::Key key{/*seed=*/2, /*stream=*/0, step_params.step};  // any reader of data goes here
    for (int i = 0; i < 16; ++i) amplitudes[i] = philox::uniform(key, 16 * 512 + i);
    for (int i = 0; i < 16 * 512; ++i) cubes[i] = amplitudes[i / 512] * (2 * philox::uniform(key, i) - 1);
    context.write_plain(executor.input("x"), cubes.data());
    context.write_plain(executor.input("y"), amplitudes.data());
    executor.forward(step_params);
    executor.backward();
    executor.update();
  }
  return executor.loss();
}

namespace {

class Readme : public ::testing::TestWithParam<std::string> {};

// Always answering 1/2 has the loss 1/12, the variance of the amplitudes.
TEST_P(Readme, TheExampleLearns) {
  Context& context = keelson::testing::context(GetParam());
  EXPECT_GT(train(context, 1), 0.05);
  EXPECT_LT(train(context, 100), 0.1 / 12);
}

INSTANTIATE_TEST_SUITE_P(Docs, Readme, ::testing::ValuesIn(keelson::testing::network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
