#include "nets/cosmoflow/cosmoflow.hpp"

#include "engine/layers/layers.hpp"

namespace keelson::nets {

Graph cosmoflow_mlperf(const CosmoFlowOptions& o) {
  if (o.size < 32)
    refuse("the MLPerf CosmoFlow network halves its input five times: a size of {} is too small, expected at least 32",
           o.size);
  Graph g;
  Var x = g.input("x", {o.channels, o.size, o.size, o.size});
  const Var y = g.input("y", {o.targets});
  for (int i = 1; i <= 5; ++i) {
    x = conv(x, {.filters = 16 << i, .size = 3, .padding = Padding::same}, fmt::format("conv{}", i));
    x = max_pool(leaky_relu(x, 0.3f), 2);
  }
  x = flatten(x, ElementOrder::channels_last);
  x = dropout(leaky_relu(dense(x, 128, "dense1"), 0.3f), o.dropout, "dropout1");
  x = dropout(leaky_relu(dense(x, 64, "dense2"), 0.3f), o.dropout, "dropout2");
  x = scale(tanh(dense(x, o.targets, "dense3")), 1.2f);
  g.set_output("prediction", x);
  mse(x, y);
  return g;
}

namespace {

/// Edge of the paper network's last convolution.
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
  Graph g;
  Var x = g.input("x", {o.channels, o.size, o.size, o.size});
  const Var y = g.input("y", {o.targets});
  struct Row {
    std::int64_t filters, size, stride;
    bool pool;
  };
  constexpr Row rows[] = {{16, 3, 1, true},   {32, 4, 1, true},   {64, 4, 2, false}, {128, 3, 1, false},
                          {256, 3, 1, false}, {256, 2, 1, false}, {256, 2, 1, false}};
  for (int i = 0; const Row& r : rows) {
    x = conv(x,
             {.filters = r.filters, .size = r.size, .stride = r.stride, .padding = Padding::valid, .bias_init = bias},
             fmt::format("conv{}", ++i));
    x = leaky_relu(x, slope);
    if (r.pool) x = average_pool(x, 2);
  }
  x = flatten(x, ElementOrder::channels_last, 2048);
  x = leaky_relu(dense(dropout(x, o.dropout, "dropout1"), {.features = 2048, .bias_init = bias}, "dense1"), slope);
  x = leaky_relu(dense(dropout(x, o.dropout, "dropout2"), {.features = 256, .bias_init = bias}, "dense2"), slope);
  x = dense(dropout(x, o.dropout, "dropout3"), {.features = o.targets, .bias_init = bias}, "dense3");
  g.set_output("prediction", x);
  mae(x, y);
  return g;
}

}  // namespace keelson::nets
