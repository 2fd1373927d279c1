#include "engine/graph/channel_maps.hpp"

#include <algorithm>
#include <numeric>

namespace keelson {

bool ChannelChange::any() const {
  return dst_channels || std::any_of(src_channels.begin(), src_channels.end(), [](const auto& m) { return !!m; });
}

const IndexMap& ChannelChange::src() const {
  for (const IndexMap& m : src_channels)
    if (m != src_channels[0]) refuse("its sources keep different channels: give the same list for all of them");
  return src_channels[0];
}

const IndexMap& ChannelChange::passed_on() const {
  if (dst_channels) refuse("it has no weights that make channels: give the channels of the node that feeds it");
  return src();
}

ChannelMaps Layer::map_channels(const ChannelChange& change) const {
  if (change.any())
    refuse(
        "it is not known how a layer of kind {} passes channels on from its sources: keep all channels of its sources "
        "and of its result",
        kind());
  return {};
}

namespace {

/// The caller's map for the node `n`; refuses channels that the node does not have.
IndexMap given_for(const Graph::Node& n, const std::map<std::string, std::vector<std::int64_t>>& channels) {
  const auto found = channels.find(n.name);
  if (found == channels.end()) return std::nullopt;
  if (n.shape.shape.rank() < 2) refuse("its result has no channels");
  const std::int64_t count = n.shape.shape[1];
  if (found->second.empty()) refuse("no channel of {} is left: keep one at least", count);
  for (const auto c : found->second)
    if (c < -1 || c >= count) refuse("channel {}: expected 0 to {}, or -1 for a new one", c, count - 1);
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return found->second == all ? std::nullopt : IndexMap(found->second);
}

/// Adds the maps of the node's parameters to `all`. Refuses a map that differs from that of another node with the same
/// parameter.
void collect(const Graph::Node& n, std::span<const ValueShape> srcs, const ChannelMaps& maps, ParameterMaps& all) {
  for (const ParameterSpec& spec : n.layer->parameters(srcs)) {
    const auto found = maps.parameters.find(spec.name);
    ParameterMap map{.indices = found == maps.parameters.end() ? std::vector<IndexMap>() : found->second};
    map.indices.resize(static_cast<std::size_t>(spec.shape.rank()));
    const auto [entry, is_new] = all.emplace(n.parameter(spec.name), map);
    if (!is_new && !(entry->second == map))
      refuse("it shares {} with another node, whose channels change in another way", entry->first);
  }
}

}  // namespace

ParameterMaps channel_maps(const Graph& graph, const std::map<std::string, std::vector<std::int64_t>>& channels) {
  for (const auto& [name, list] : channels)
    if (std::none_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& n) { return n.name == name; }))
      refuse("channels are given for the node '{}', but the network has no such node", name);
  ParameterMaps all;
  std::vector<IndexMap> of_node;
  for (const Graph::Node& n : graph.nodes()) {
    std::vector<ValueShape> srcs;
    std::vector<IndexMap> src_channels;
    for (const int s : n.srcs) {
      srcs.push_back(graph.nodes()[s].shape);
      src_channels.push_back(of_node[s]);
    }
    try {
      const ChannelMaps maps = n.layer->map_channels({srcs, src_channels, given_for(n, channels)});
      collect(n, srcs, maps, all);
      of_node.push_back(maps.dst);
    } catch (const InputError& e) {
      refuse("{}: {}", n.name, e.what());
    }
  }
  std::erase_if(all, [](const auto& entry) {
    const auto& dims = entry.second.indices;
    return std::none_of(dims.begin(), dims.end(), [](const IndexMap& m) { return m.has_value(); });
  });
  return all;
}

}  // namespace keelson
