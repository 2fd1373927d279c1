#include "apps/bench/scale/stages.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/plan/stage_parts.hpp"

namespace keelson::bench {
namespace {

/// Nodes before `cut` that nodes from `cut` on read, without inputs.
std::vector<int> values_over(const FusedNodes& fused, int cut) {
  std::vector<int> sent;
  for (int node = 0; node < cut; ++node) {
    if (fused.nodes[static_cast<std::size_t>(node)].srcs.empty()) continue;
    const auto reads = [&](const Graph::Node& reader) {
      return std::find(reader.srcs.begin(), reader.srcs.end(), node) != reader.srcs.end();
    };
    if (std::any_of(fused.nodes.begin() + cut, fused.nodes.end(), reads)) sent.push_back(node);
  }
  return sent;
}

}  // namespace

std::vector<StageNodes> cut_stages(const FusedNodes& fused, const std::vector<NodeCost>& costs, int stages) {
  std::vector<int> nodes;  // that compute
  std::vector<double> seconds;
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (costs[i].has_calls) {
      nodes.push_back(static_cast<int>(i));
      seconds.push_back(costs[i].passes + costs[i].update);
    }
  if (stages > static_cast<int>(nodes.size()))
    refuse("--stages {}: the network has {} nodes that compute; expected at most as many stages, give fewer", stages,
           nodes.size());
  std::vector<StageNodes> cut;
  for (const std::size_t end : shortest_longest(seconds, static_cast<std::size_t>(stages))) {
    const std::size_t last = end - 1;
    StageNodes s{.begin = cut.empty() ? 0 : cut.back().end,
                 .end = last + 1 == nodes.size() ? static_cast<int>(costs.size()) : nodes[last] + 1};
    for (int i = s.begin; i < s.end; ++i) s.update += costs[static_cast<std::size_t>(i)].update;
    s.sent = values_over(fused, s.end);
    cut.push_back(std::move(s));
  }
  return cut;
}

}  // namespace keelson::bench
