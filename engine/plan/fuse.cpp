#include "engine/plan/fuse.hpp"

namespace keelson {

namespace {

std::shared_ptr<const Layer> fuse_layers(const Layer& first, const Layer& reader, bool training) {
  for (const FusionRule& rule : first.fusion_rules())
    if (auto layer = rule(first, reader, training)) return layer;
  return nullptr;
}

std::vector<ParameterSpec> parameters_of(const std::vector<Graph::Node>& nodes, const Graph::Node& n) {
  std::vector<ValueShape> shapes;
  for (int s : n.srcs) shapes.push_back(nodes[s].shape);
  return n.layer->parameters(shapes);
}

/// The layer that has taken in `moved` finds the parameters of that node by the names that they had there.
void share_parameters(Graph::Node& into, const std::vector<ParameterSpec>& own, const Graph::Node& moved,
                      const std::vector<ParameterSpec>& theirs) {
  for (const ParameterSpec& p : theirs) {
    for (const ParameterSpec& mine : own) KEELSON_EXPECT(mine.name != p.name);
    KEELSON_EXPECT(into.shared.emplace(p.name, moved.parameter(p.name)).second);
  }
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
        share_parameters(producer, parameters_of(fused.nodes, producer), n, parameters_of(old, n));
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
