#include "engine/plan/fuse.hpp"

namespace keelson {

namespace {

std::shared_ptr<const Layer> fuse_layers(const Layer& first, const Layer& reader, const FusionPlace& at) {
  for (const FusionRule& rule : first.fusion_rules())
    if (auto layer = rule(first, reader, at)) return layer;
  return nullptr;
}

/// After the fusion, `into` finds the parameters of `reader` by the names that they have in `reader`.
void share_parameters(Graph::Node& into, const Graph::Node& reader, const FusionPlace& at) {
  const auto own = into.layer->parameters(at.srcs);
  for (const ParameterSpec& p : reader.layer->parameters({&at.between, 1})) {
    for (const ParameterSpec& mine : own) KEELSON_EXPECT(mine.name != p.name);
    KEELSON_EXPECT(into.shared.emplace(p.name, reader.parameter(p.name)).second);
  }
}

/// Makes `reader` a part of `producer`, the only node that it reads. Returns false if no rule allows that.
bool move_into(Graph::Node& producer, const std::vector<ValueShape>& srcs, const Graph::Node& reader,
               const PlanOptions& options) {
  const FusionPlace at{options.training, options.micro_batch_size(), srcs, producer.shape};
  auto layer = fuse_layers(*producer.layer, *reader.layer, at);
  if (!layer) return false;
  share_parameters(producer, reader, at);
  producer.layer = std::move(layer);
  producer.shape = reader.shape;
  return true;
}

}  // namespace

FusedNodes fuse(const Graph& graph, const PlanOptions& options) {
  const auto& old = graph.nodes();
  std::vector<int> readers(old.size(), 0);
  for (const auto& n : old)
    for (int s : n.srcs) ++readers[s];
  for (const auto& [name, node] : graph.outputs()) ++readers[node];

  FusedNodes fused;
  for (const Graph::Node& n : old) {
    if (options.fuse && n.srcs.size() == 1 && readers[n.srcs[0]] == 1) {
      Graph::Node& producer = fused.nodes[fused.index[n.srcs[0]]];
      std::vector<ValueShape> srcs;
      for (int s : producer.srcs) srcs.push_back(fused.nodes[s].shape);
      if (producer.layer && move_into(producer, srcs, n, options)) {
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
