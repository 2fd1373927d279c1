#include "nets/cosmoflow/cosmoflow.hpp"

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

}  // namespace

Graph cosmoflow_mlperf(const CosmoFlowOptions& o) {
  if (o.size < 32)
    refuse("the MLPerf CosmoFlow network halves its input five times: a size of {} is too small, expected at least 32",
           o.size);
  const auto widths = widths_of(o, {{"conv1", 32},
                                    {"conv2", 64},
                                    {"conv3", 128},
                                    {"conv4", 256},
                                    {"conv5", 512},
                                    {"dense1", 128},
                                    {"dense2", 64},
                                    {"dense3", o.targets}});
  Graph g;
  Var x = g.input("x", {o.channels, o.size, o.size, o.size});
  const Var y = g.input("y", {o.targets});
  for (int i = 1; i <= 5; ++i) {
    const auto name = fmt::format("conv{}", i);
    x = conv(x, {.filters = widths.at(name), .size = 3, .padding = Padding::same}, name);
    x = max_pool(leaky_relu(x, 0.3f), 2);
  }
  x = flatten(x, ElementOrder::channels_last);
  x = dropout(leaky_relu(dense(x, widths.at("dense1"), "dense1"), 0.3f), o.dropout, "dropout1");
  x = dropout(leaky_relu(dense(x, widths.at("dense2"), "dense2"), 0.3f), o.dropout, "dropout2");
  x = scale(tanh(dense(x, widths.at("dense3"), "dense3")), 1.2f);
  g.set_output("prediction", x);
  mse(x, y);
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

}  // namespace keelson::nets
