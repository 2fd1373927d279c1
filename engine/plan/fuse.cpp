#include "engine/plan/fuse.hpp"

namespace keelson {

namespace {

std::shared_ptr<const Layer> fuse_layers(const Layer& first, const Layer& reader, bool training) {
  for (const FusionRule& rule : first.fusion_rules())
    if (auto layer = rule(first, reader, training)) return layer;
  return nullptr;
}

}  // namespace

FusedNodes fuse(const Graph& graph, bool training, bool enabled) {
  const auto& old = graph.nodes();
  std::vector<int> readers(old.size(), 0);
  for (const auto& n : old)
    for (int s : n.srcs) ++readers[s];
  for (const auto& [name, node] : graph.outputs()) ++readers[node];

  FusedNodes fused;
  for (const Graph::Node& n : old) {
    if (enabled && n.srcs.size() == 1 && readers[n.srcs[0]] == 1) {
      Graph::Node& producer = fused.nodes[fused.index[n.srcs[0]]];
      auto layer = producer.layer ? fuse_layers(*producer.layer, *n.layer, training) : nullptr;
      if (layer) {
        producer.layer = std::move(layer);
        producer.shape = n.shape;
        fused.index.push_back(fused.index[n.srcs[0]]);
        continue;
      }
    }
    Graph::Node copy = n;
    for (int& s : copy.srcs) s = fused.index[s];
    fused.index.push_back(static_cast<int>(fused.nodes.size()));
    fused.nodes.push_back(std::move(copy));
  }
  return fused;
}

}  // namespace keelson
