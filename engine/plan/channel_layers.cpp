#include "engine/plan/channel_layers.hpp"

#include <algorithm>

namespace keelson {
namespace {

constexpr std::int64_t least_parameters = 65536;  ///< of a layer: it is computed in less time than channels travel
constexpr std::int64_t value_weight = 2;          ///< of an element of a whole value; a parameter weighs 1

bool reads_an_input(const Graph& graph, const Graph::Node& n) {
  return std::ranges::any_of(n.srcs, [&](int s) { return graph.nodes()[static_cast<std::size_t>(s)].is_input(); });
}

/// Elements of the parameters of which each rank has a part.
std::int64_t parameters_in_parts(const Graph::Node& n, const std::vector<ValueShape>& srcs, const ChannelPart& part) {
  std::int64_t elements = 0;
  for (const ParameterSpec& p : n.layer->parameters(srcs))
    if (part.parameters.contains(p.name)) elements += p.shape.elements();
  return elements;
}

}  // namespace

ChannelRule::ChannelRule(const Graph& graph, int ranks) : ranks_(ranks) {
  for (const Graph::Node& n : graph.nodes())
    for (const auto& [own, other] : n.shared) shared_.insert(other);
}

std::optional<ChannelPart> ChannelRule::part(const Graph::Node& n, std::span<const ValueShape> srcs) const {
  const Shape& shape = n.shape.shape;
  if (n.srcs.empty() || shape.rank() <= dim || n.shape.batch_axis != 0) return {};
  if (shape[dim] < least_channels * ranks_) return {};
  auto part = n.layer->channel_part(srcs, {0, shape[dim]});
  if (!part) return {};
  for (const auto& [own, dim] : part->parameters)
    if (shared_.contains(n.parameter(own))) return {};
  return part;
}

std::vector<std::string> channel_layers(const Graph& graph, int ranks) {
  if (ranks == 1) return {};
  const ChannelRule rule(graph, ranks);
  std::vector<std::string> found;  // from the last one to the first
  std::set<int> whole;             // nodes with values that each rank holds
  std::int64_t saved = 0, most = 0;
  std::size_t best = 0;
  const auto hold = [&](int node) {
    if (whole.insert(node).second)
      saved -= value_weight * graph.nodes()[static_cast<std::size_t>(node)].shape.shape.elements();
  };
  for (int i = static_cast<int>(graph.nodes().size()) - 1; i >= 0; --i) {
    const Graph::Node& n = graph.nodes()[static_cast<std::size_t>(i)];
    if (n.srcs.empty()) continue;
    const auto srcs = graph.source_shapes(n);
    const auto part = rule.part(n, srcs);
    if (part && !part->reads_all) continue;  // goes on with the channels of its source
    for (const int s : n.srcs) hold(s);
    const std::int64_t parameters = part ? parameters_in_parts(n, srcs, *part) : 0;
    if (parameters < least_parameters) {
      hold(i);
      continue;
    }
    saved += parameters;
    found.push_back(n.name);
    if (saved <= most || reads_an_input(graph, n)) continue;
    most = saved;
    best = found.size();
  }
  found.resize(best);
  std::ranges::reverse(found);
  return found;
}

std::vector<std::string> channel_layers(const Graph& graph, const PlanOptions& options) {
  const int ranks = options.grid ? options.grid->extent(ProcessGrid::Axis::space) : 1;
  const bool whole_updates = options.exchange.shards != OptimizerShards::none || options.lag;
  if (ranks == 1 || options.whole_parameters || (options.training && whole_updates)) return {};
  return channel_layers(graph, ranks);
}

}  // namespace keelson
