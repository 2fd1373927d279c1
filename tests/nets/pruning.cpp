#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/graph/channel_maps.hpp"
#include "engine/graph/topology.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/sgd.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/networks.hpp"

/// CosmoFlow with a quarter of its channels removed.
namespace keelson::testing {
namespace {

using Channels = std::map<std::string, std::vector<std::int64_t>>;

std::shared_ptr<const Optimizer> momentum() {
  auto sgd = std::make_shared<Sgd>();
  sgd->momentum = 0.9f;
  return sgd;
}

struct PrunedNet {
  std::string name;
  Graph (*make)(const nets::CosmoFlowOptions&);
  nets::CosmoFlowOptions options;
  std::shared_ptr<const Optimizer> optimizer;
};

const PrunedNet pruned_nets[] = {
    {"Mlperf", nets::cosmoflow_mlperf, {.size = 32, .dropout = 0}, std::make_shared<Adam>()},
    {"Paper", nets::cosmoflow_paper, {.size = 80, .channels = 1, .targets = 3, .dropout = 0}, momentum()},
};

/// Of each hidden layer three channels of four, another one left out in each.
Channels three_quarters(const Graph& g) {
  Channels keep;
  std::int64_t layer = 0;
  for (const auto& [name, width] : Topology(g).widths()) {
    ++layer;
    if (name == "dense3") continue;
    for (std::int64_t c = 0; c < width; ++c)
      if ((c + layer) % 4 != 1) keep[name].push_back(c);
  }
  return keep;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

class Pruning : public ::testing::TestWithParam<int> {
 protected:
  const PrunedNet& net() const { return pruned_nets[GetParam()]; }
  Array x() const {
    const auto s = net().options.size;
    return oracle::random_uniform({1, net().options.channels, s, s, s}, "x", 0, 2);
  }

  std::vector<float> prediction(Context& ctx, const Graph& g, Parameters& parameters) const {
    Executor executor(g, parameters, {.batch = 1, .training = false});
    set_input(ctx, executor, "x", x());
    executor.forward({});
    const auto out = get_output(ctx, executor, "prediction");
    return {out.data.begin(), out.data.end()};
  }

  void train(Context& ctx, const Graph& g, Parameters& parameters, const Optimizer& optimizer, std::uint64_t first,
             std::uint64_t last) const {
    Executor executor(g, parameters, {.batch = 1, .optimizer = &optimizer});
    for (std::uint64_t i = first; i < last; ++i) {
      set_input(ctx, executor, "x", x());
      set_input(ctx, executor, "y", oracle::random_uniform({1, net().options.targets}, fmt::format("y{}", i)));
      executor.forward({.seed = 1, .step = i, .learning_rate = 1e-3f});
      executor.backward();
      executor.update();
    }
  }

  /// Values and moments of the entries that stay are those of the old parameters, to `tolerance`.
  void expect_kept(const Parameters& old, const Graph& g, const ParameterMaps& maps, const Parameters& now, int moments,
                   double tolerance) const {
    // What the new parameters would be if they came from the old ones now.
    const Parameters want = old.remap(g, maps);
    for (const Parameter& p : now.all())
      for (int which = -1; which < moments; ++which) {
        const Parameter& w = *want.find(p.name);
        const auto d = distance(now.get(p, which), which < 0 ? want.get(w) : w.start_moments.at(which));
        if (tolerance == 0)
          EXPECT_EQ(d, 0) << p.name << " " << which;
        else
          EXPECT_LT(d, tolerance) << p.name << " " << which;
      }
  }
};

TEST_P(Pruning, IsTheMaskedNetworkInFunctionAndInTheNextStep) {
  const auto& optimizer = net().optimizer;
  for (const std::string& where : network_contexts()) {
    SCOPED_TRACE(where);
    Context& ctx = context(where);
    // With fewer channels other algorithms convolve, and a rounding error can decide which element a pooling takes.
    ctx.require_exact_convolutions(true);
    const int moments = static_cast<int>(optimizer->state_names().size());
    const Graph whole = net().make(net().options);
    Parameters old(whole, ctx, 5);
    train(ctx, whole, old, *optimizer, 0, 2);

    const Channels keep = three_quarters(whole);
    const ParameterMaps maps = channel_maps(whole, keep);
    auto fewer = net().options;
    for (const auto& [layer, channels] : keep) fewer.widths[layer] = static_cast<std::int64_t>(channels.size());
    const Graph small = net().make(fewer);
    EXPECT_LT(static_cast<double>(small.parameter_count()), 0.6 * static_cast<double>(whole.parameter_count()));
    Parameters pruned = old.remap(small, maps);
    const auto got = prediction(ctx, small, pruned);
    {
      const Executor with_moments(small, pruned, {.batch = 1, .optimizer = optimizer.get()});
    }
    expect_kept(old, small, maps, pruned, moments, 0);

    // The channels that go are zero in the old network: their filters and biases.
    for (Parameter& p : old.all()) {
      const auto& layer = p.name.substr(0, p.name.find('/'));
      if (!keep.contains(layer)) continue;
      auto values = old.get(p);
      const auto row = values.size() / static_cast<std::size_t>(p.shape[0]);
      for (std::int64_t c = 0; c < p.shape[0]; ++c)
        if (!std::ranges::binary_search(keep.at(layer), c))
          std::fill_n(values.begin() + c * static_cast<std::int64_t>(row), row, 0.0f);
      old.set(p, values);
    }
    const auto want = prediction(ctx, whole, old);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);

    train(ctx, whole, old, *optimizer, 2, 3);
    train(ctx, small, pruned, *optimizer, 2, 3);
    expect_kept(old, small, maps, pruned, moments, 1e-5);
    ctx.require_exact_convolutions(false);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Pruning, ::testing::Values(0, 1),
                         [](const auto& info) { return pruned_nets[info.param].name; });

TEST(CosmoFlow, RefusesWidthsOfLayersThatTheNetworkHasNot) {
  const auto text = message_of<InputError>([] { nets::cosmoflow_mlperf({.size = 32, .widths = {{"conv7", 3}}}); });
  EXPECT_NE(text.find("the layer 'conv7'"), std::string::npos) << text;
  EXPECT_NO_THROW(nets::cosmoflow_paper({.size = 80, .channels = 1, .targets = 3, .widths = {{"conv7", 3}}}));
}

}  // namespace
}  // namespace keelson::testing
