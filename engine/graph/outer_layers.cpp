#include "engine/graph/outer_layers.hpp"

#include <vector>

namespace keelson {

std::set<std::string> matrices_of_outer_layers(const Graph& graph) {
  std::set<std::string> names;
  const auto& nodes = graph.nodes();
  // Whether a layer with matrices reads the result. Nodes stand behind their sources.
  std::vector<bool> is_read(nodes.size());
  for (auto i = nodes.size(); i-- > 0;) {
    const Graph::Node& n = nodes[i];
    if (!n.layer) continue;
    std::vector<std::string> matrices;
    for (const ParameterSpec& p : n.layer->parameters(graph.source_shapes(n)))
      if (p.kind == ParameterKind::trained && p.shape.rank() > 1) matrices.push_back(n.parameter(p.name));
    if (!matrices.empty() && (!is_read[i] || n.layer->kind() == "embedding"))
      names.insert(matrices.begin(), matrices.end());
    if (!matrices.empty() || is_read[i])
      for (const int src : n.srcs) is_read[static_cast<std::size_t>(src)] = true;
  }
  return names;
}

}  // namespace keelson
