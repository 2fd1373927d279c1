#include "nets/mlp/mlp.hpp"

#include <optional>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"

namespace keelson::nets {
namespace {

Var activated(Var x, const std::string& name) {
  if (name == "tanh") return tanh(x);
  if (name == "relu") return relu(x);
  if (name == "gelu") return gelu(x);
  if (name == "silu") return silu(x);
  if (name == "sigmoid") return sigmoid(x);
  refuse("a dense network with the activation '{}': expected tanh, relu, gelu, silu or sigmoid", name);
}

}  // namespace

Graph mlp(const MlpOptions& o) {
  if (o.features < 1 || o.outputs < 1 || o.layers < 0 || o.units < 1)
    refuse("a dense network of {} features, {} layers of {} units and {} outputs: expected at least 1, 0, 1 and 1",
           o.features, o.layers, o.units, o.outputs);
  Graph graph;
  Var v = graph.input("x", {o.features});
  const Var y = o.classes ? graph.input("y", {}, DType::s32) : graph.input("y", {o.outputs});
  for (int l = 1; l <= o.layers; ++l) {
    v = dense(v, o.units, fmt::format("dense{}", l));
    if (o.batch_norm) v = batch_norm(v, {}, fmt::format("norm{}", l));
    v = activated(v, o.activation);
    const bool drops = o.dropout_layers == 0 || l > o.layers - o.dropout_layers;
    if (o.dropout > 0 && drops) v = dropout(v, o.dropout, fmt::format("dropout{}", l));
  }
  v = dense(v, o.outputs, "output");
  graph.set_output("prediction", v);
  std::optional<Var> importance;
  if (o.sample_weights) importance = graph.input("sample_weight", {});
  const auto kind = o.classes ? ops::LossKind::cross_entropy : ops::LossKind::mse;
  loss(v, y, {.kind = kind, .label_smoothing = o.label_smoothing}, "loss", importance);
  return graph;
}

}  // namespace keelson::nets
