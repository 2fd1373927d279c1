#include "nets/cosmoflow/cosmoflow.hpp"

#include <algorithm>

#include "engine/layers/layers.hpp"

namespace keelson::nets {

namespace {

/// The width of each layer: as published, or as in the options.
std::map<std::string, std::int64_t> widths_of(const CosmoFlowOptions& o,
                                              std::map<std::string, std::int64_t> published) {
  for (const auto& [layer, width] : o.widths) {
    const auto found = published.find(layer);
    if (found == published.end())
      refuse("a width of {} is given for the layer '{}', but this CosmoFlow network has no such layer", width, layer);
    found->second = width;
  }
  return published;
}

/// So many that the last one leaves fewer than 8 cells along each edge, as published for an edge of 128.
int mlperf_blocks(std::int64_t size) {
  int blocks = 5;
  while (size >> blocks >= 8) ++blocks;
  return blocks;
}

}  // namespace

Graph cosmoflow_mlperf(const CosmoFlowOptions& o) {
  if (o.size < 32)
    refuse("the MLPerf CosmoFlow network halves its input five times: a size of {} is too small, expected at least 32",
           o.size);
  std::map<std::string, std::int64_t> published{{"dense1", 128}, {"dense2", 64}, {"dense3", o.targets}};
  const int blocks = mlperf_blocks(o.size);
  for (int i = 1; i <= blocks; ++i) published[fmt::format("conv{}", i)] = std::min(16 << i, 512);
  if (o.uncertainty) published["spread"] = o.targets;
  const auto widths = widths_of(o, std::move(published));
  Graph g;
  Var x = g.input("x", {o.channels, o.size, o.size, o.size});
  const Var y = g.input("y", {o.targets});
  for (int i = 1; i <= blocks; ++i) {
    const auto name = fmt::format("conv{}", i);
    x = conv(x, {.filters = widths.at(name), .size = o.kernel, .padding = Padding::same}, name);
    x = max_pool(leaky_relu(x, 0.3f), 2);
  }
  x = flatten(x, ElementOrder::channels_last);
  x = dropout(leaky_relu(dense(x, widths.at("dense1"), "dense1"), 0.3f), o.dropout, "dropout1");
  x = dropout(leaky_relu(dense(x, widths.at("dense2"), "dense2"), 0.3f), o.dropout, "dropout2");
  const Var features = x;
  x = scale(tanh(dense(features, widths.at("dense3"), "dense3")), 1.2f);
  g.set_output("prediction", x);
  if (!o.uncertainty) {
    mse(x, y);
    return g;
  }
  const Var spread = dense(features, widths.at("spread"), "spread");
  g.set_output("variance", gaussian_variance(spread, "variance"));
  gaussian_nll(x, spread, y);
  return g;
}

namespace {

/// Edge of the result of the paper network's last convolution.
std::int64_t paper_edge(std::int64_t size) {
  const std::int64_t pooled = ((size - 2) / 2 - 3) / 2;
  return (pooled - 4) / 2 + 1 - 6;
}

std::int64_t nearest_paper_size(std::int64_t size) {
  for (std::int64_t away = 0;; ++away)
    for (std::int64_t s : {size + away, size - away})
      if (s >= 80 && paper_edge(s) % 2 == 0) return s;
}

}  // namespace

Graph cosmoflow_paper(const CosmoFlowOptions& o) {
  if (o.size < 80 || paper_edge(o.size) % 2 != 0)
    refuse("the paper's CosmoFlow network cannot take size {}: its last convolution must have an even edge; try {}",
           o.size, nearest_paper_size(o.size));
  if (o.uncertainty)
    refuse(
        "the paper's CosmoFlow network predicts {} times for each sample, without variances: expected the MLPerf "
        "network for uncertainties",
        paper_edge(o.size) * paper_edge(o.size) * paper_edge(o.size) / 8);
  constexpr float slope = 0.01f;
  const Init bias = Init::constant(0.1f);
  const auto widths = widths_of(o, {{"conv1", 16},
                                    {"conv2", 32},
                                    {"conv3", 64},
                                    {"conv4", 128},
                                    {"conv5", 256},
                                    {"conv6", 256},
                                    {"conv7", 256},
                                    {"dense1", 2048},
                                    {"dense2", 256},
                                    {"dense3", o.targets}});
  Graph g;
  Var x = g.input("x", {o.channels, o.size, o.size, o.size});
  const Var y = g.input("y", {o.targets});
  struct Row {
    std::int64_t size, stride;
    bool pool;
  };
  constexpr Row rows[] = {{3, 1, true},  {4, 1, true},  {4, 2, false}, {3, 1, false},
                          {3, 1, false}, {2, 1, false}, {2, 1, false}};
  for (int i = 0; const Row& r : rows) {
    const auto name = fmt::format("conv{}", ++i);
    x = conv(
        x,
        {.filters = widths.at(name), .size = r.size, .stride = r.stride, .padding = Padding::valid, .bias_init = bias},
        name);
    x = leaky_relu(x, slope);
    if (r.pool) x = average_pool(x, 2);
  }
  x = flatten(x, ElementOrder::channels_last, 8 * widths.at("conv7"));
  const auto last = [&](Var v, const std::string& i) {
    const auto name = "dense" + i;
    return dense(dropout(v, o.dropout, "dropout" + i), {.features = widths.at(name), .bias_init = bias}, name);
  };
  x = last(leaky_relu(last(leaky_relu(last(x, "1"), slope), "2"), slope), "3");
  g.set_output("prediction", x);
  mae(x, y);
  return g;
}

namespace {

CosmoFlowOptions cosmoflow_options(const Settings& settings, const Shape& sample, int targets) {
  if (sample.rank() != 4 || sample[1] != sample[2] || sample[2] != sample[3])
    refuse("samples of {}; expected (channels, size, size, size)", to_string(sample));
  CosmoFlowOptions o{.size = sample[1], .channels = static_cast<int>(sample[0]), .targets = targets};
  settings.get("targets", o.targets);
  settings.get("dropout", o.dropout);
  settings.get("uncertainty", o.uncertainty);
  return o;
}

}  // namespace

RegisteredNetwork registered_cosmoflow_mlperf() {
  return {.name = "mlperf",
          .stored_name = "cosmoflow-mlperf",
          .title = "MLPerf HPC's CosmoFlow",
          .make = [](const Settings& settings,
                     const Shape& sample) { return cosmoflow_mlperf(cosmoflow_options(settings, sample, 4)); },
          .published_sample = {4, 128, 128, 128},
          .small_sample = {4, 64, 64, 64},
          .tiny_sample = {4, 32, 32, 32}};
}

RegisteredNetwork registered_cosmoflow_paper() {
  return {.name = "paper",
          .stored_name = "cosmoflow-paper",
          .title = "the SC18 paper's CosmoFlow",
          .make = [](const Settings& settings,
                     const Shape& sample) { return cosmoflow_paper(cosmoflow_options(settings, sample, 3)); },
          .published_sample = {1, 128, 128, 128},
          .small_sample = {1, 96, 96, 96},
          .tiny_sample = {1, 80, 80, 80}};
}

}  // namespace keelson::nets
