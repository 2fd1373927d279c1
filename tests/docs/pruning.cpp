// The example of docs/adding-a-network.md, as it stands there (tests/cli/test_readme.py compares them), and what it
// does.
#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

#include <algorithm>
#include <numeric>

#include "engine/graph/channel_maps.hpp"
#include "engine/train/trainer.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"

using namespace keelson;

/// The `count` channels whose weights have the largest sum of absolute values (Li et al. 2017, arXiv 1608.08710).
std::vector<std::int64_t> strongest(const Parameters& parameters, const std::string& layer, std::int64_t count) {
  const Parameter& weights = *parameters.find(layer + "/weights");
  const std::vector<float> values = parameters.get(weights);
  const auto row = static_cast<std::int64_t>(values.size()) / weights.shape[0];
  std::vector<double> norm(static_cast<std::size_t>(weights.shape[0]));
  for (std::size_t c = 0; c < norm.size(); ++c)
    for (std::int64_t i = 0; i < row; ++i) norm[c] += std::abs(values[c * static_cast<std::size_t>(row) + i]);
  std::vector<std::int64_t> channels(norm.size());
  std::iota(channels.begin(), channels.end(), 0);
  std::ranges::stable_sort(channels, [&](auto a, auto b) { return norm[a] > norm[b]; });
  channels.resize(static_cast<std::size_t>(count));
  std::ranges::sort(channels);
  return channels;
}

/// CosmoFlow whose last convolutions lose a quarter of their channels after the first epoch.
void prune_after_first_epoch(TrainerOptions& options, const nets::CosmoFlowOptions& net) {
  options.change_network = [net](const RunState& state, const Parameters& parameters) -> std::optional<NetworkChange> {
    if (state.epoch != 1) return std::nullopt;
    const Topology topology = Topology::parse(state.topology);
    KeptChannels keep;
    for (const std::string layer : {"conv4", "conv5"})
      keep[layer] = strongest(parameters, layer, topology.widths().at(layer) * 3 / 4);
    return change_channels(with_widths(nets::cosmoflow_mlperf(net), topology), keep);
  };
}

namespace {

using namespace keelson::testing;

TEST(PruningExample, GoesOnWithThreeQuarters) {
  const nets::CosmoFlowOptions net{.size = 32, .channels = 2, .targets = 2};
  const CubeDataset training(4, 32);
  auto options = small_options();
  options.batch = 2;
  prune_after_first_epoch(options, net);
  const Graph graph = nets::cosmoflow_mlperf(net);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const auto result = Trainer(graph, parameters, training, nullptr, nullptr, options).run();
  EXPECT_EQ(result.state.step, 4);
  const auto widths = Topology::parse(result.state.topology).widths();
  EXPECT_EQ(widths.at("conv4"), 192);
  EXPECT_EQ(widths.at("conv5"), 384);
  EXPECT_EQ(parameters.find("dense1/weights")->shape, (Shape{128, 384}));
}

}  // namespace
