#include "apps/bench/scale/stages.hpp"

#include <algorithm>
#include <limits>

#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

/// The last nodes of the stages, of the places in `nodes`: dynamic programming over the number of stages.
std::vector<std::size_t> shortest_longest(const std::vector<double>& seconds, std::size_t stages) {
  const std::size_t n = seconds.size();
  std::vector<double> sums{0};
  for (const double s : seconds) sums.push_back(sums.back() + s);
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector longest(stages + 1, std::vector(n + 1, never));  // of the first nodes in so many stages
  std::vector from(stages + 1, std::vector<std::size_t>(n + 1, 0));
  longest[0][0] = 0;
  for (std::size_t k = 1; k <= stages; ++k)
    for (std::size_t end = k; end <= n; ++end)
      for (std::size_t begin = k - 1; begin < end; ++begin) {
        const double here = std::max(longest[k - 1][begin], sums[end] - sums[begin]);
        if (here >= longest[k][end]) continue;
        longest[k][end] = here;
        from[k][end] = begin;
      }
  std::vector<std::size_t> ends;
  for (std::size_t k = stages, end = n; k > 0; end = from[k--][end]) ends.insert(ends.begin(), end - 1);
  return ends;
}

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
  for (const std::size_t last : shortest_longest(seconds, static_cast<std::size_t>(stages))) {
    StageNodes s{.begin = cut.empty() ? 0 : cut.back().end,
                 .end = last + 1 == nodes.size() ? static_cast<int>(costs.size()) : nodes[last] + 1};
    for (int i = s.begin; i < s.end; ++i) s.update += costs[static_cast<std::size_t>(i)].update;
    s.sent = values_over(fused, s.end);
    cut.push_back(std::move(s));
  }
  return cut;
}

}  // namespace keelson::bench
