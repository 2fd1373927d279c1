#include "engine/graph/channel_maps.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace keelson {

namespace {

/// The dimension of the node's result that counts its channels.
int channel_dim(const Graph::Node& n) { return n.is_state ? 2 : 1; }

std::vector<std::int64_t> all_channels(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// The caller's map for the node `n`; refuses channels that the node does not have.
IndexMap given_for(const Graph::Node& n, const KeptChannels& channels) {
  const auto found = channels.find(n.name);
  if (found == channels.end()) return std::nullopt;
  if (n.shape.shape.rank() < 2) refuse("its result has no channels");
  const std::int64_t count = n.shape.shape[channel_dim(n)];
  if (found->second.empty()) refuse("no channel of {} is left: keep one at least", count);
  for (const auto c : found->second)
    if (c < -1 || c >= count) refuse("channel {}: expected 0 to {}, or -1 for a new one", c, count - 1);
  return found->second == all_channels(count) ? std::nullopt : IndexMap(found->second);
}

/// The old channel of the tie for each new channel, from the map of the dimension at `place`.
std::vector<std::int64_t> channels_at(const TiedPlace& place, std::int64_t channels,
                                      const std::vector<std::int64_t>& map) {
  const std::int64_t now = std::ssize(map) / (place.outer * place.inner);
  const auto broken = [] {
    refuse(
        "it reads several indices of its source for each channel (gates of a unit, pixels, channels of a group), and "
        "some of these stay while others go: keep all of them or none");
  };
  if (place.extent(now) != std::ssize(map)) broken();
  std::vector<std::int64_t> all;
  for (std::int64_t u = 0; u < now; ++u) {
    const std::int64_t first = map[static_cast<std::size_t>(u * place.inner)];
    const std::int64_t old = first < 0 ? -1 : first / place.inner;
    if (old >= channels) broken();
    const auto mine = place.indices(u, now);
    const auto theirs = old < 0 ? std::vector<std::int64_t>(mine.size(), -1) : place.indices(old, channels);
    for (std::size_t k = 0; k < mine.size(); ++k)
      if (map[static_cast<std::size_t>(mine[k])] != theirs[k]) broken();
    all.push_back(old);
  }
  return all;
}

/// The reverse: the map of the indices at `place`, without its offset.
std::vector<std::int64_t> indices_at(const TiedPlace& place, std::int64_t channels,
                                     const std::vector<std::int64_t>& kept) {
  std::vector<std::int64_t> map;
  for (std::int64_t o = 0; o < place.outer; ++o)
    for (const auto u : kept)
      for (std::int64_t i = 0; i < place.inner; ++i)
        map.push_back(u < 0 ? -1 : place.offset + (o * channels + u) * place.inner + i);
  return map;
}

/// What becomes of a node: its channels, and the dimensions of its parameters by the layer's own names.
struct ChangedNode {
  IndexMap channels;
  std::map<std::string, std::vector<IndexMap>> parameters = {};
};

/// A part of the map of a result, behind the parts of smaller offsets.
struct ResultPart {
  std::int64_t offset;
  std::vector<std::int64_t> map;
};

void require_known(const Graph::Node& n, bool known) {
  if (!known)
    refuse(
        "it is not known how a layer of kind {} passes channels on from its sources: keep all channels of its sources "
        "and of its result",
        n.layer->kind());
}

bool has_place(const std::vector<ChannelTie>& ties, const std::function<bool(const TiedPlace&)>& is) {
  return std::ranges::any_of(ties, [&](const auto& tie) { return std::ranges::any_of(tie.places, is); });
}

/// The channels of the tie that stay, from those of the sources or from the caller. No value: all stay.
IndexMap kept_of(const ChannelTie& tie, const Graph& graph, const Graph::Node& n, const std::vector<ChangedNode>& done,
                 const IndexMap& given) {
  std::optional<IndexMap> by_sources;
  for (const TiedPlace& place : tie.places) {
    if (place.of != TiedPlace::Of::src) continue;
    const int s = n.srcs[place.src];
    IndexMap kept;
    if (done[s].channels) {
      require_known(n, place.dim == channel_dim(graph.nodes()[s]));
      kept = channels_at(place, tie.channels, *done[s].channels);
    }
    if (by_sources && *by_sources != kept)
      refuse("its sources keep different channels: give the same list for all of them");
    by_sources = kept;
  }
  const auto makes = std::ranges::find(tie.places, TiedPlace::Of::dst, &TiedPlace::of);
  if (!given || makes == tie.places.end()) return by_sources.value_or(std::nullopt);
  if (by_sources) refuse("it has no weights that make channels: give the channels of the node that feeds it");
  return channels_at(*makes, tie.channels, *given);
}

ChangedNode change_node(const Graph& graph, const Graph::Node& n, const std::vector<ChangedNode>& done,
                        const IndexMap& given) {
  const auto srcs = graph.source_shapes(n);
  const auto ties = n.layer->channel_ties(srcs);
  for (int i = 0; i < std::ssize(n.srcs); ++i)
    if (done[n.srcs[i]].channels)
      require_known(n, has_place(ties, [&](const auto& p) { return p.of == TiedPlace::Of::src && p.src == i; }));
  if (given) require_known(n, has_place(ties, [](const auto& p) { return p.of == TiedPlace::Of::dst; }));
  ChangedNode changed;
  std::vector<ResultPart> parts;
  bool any = false;
  for (const ChannelTie& tie : ties) {
    const IndexMap kept = kept_of(tie, graph, n, done, given);
    const auto channels = kept.value_or(all_channels(tie.channels));
    for (const TiedPlace& place : tie.places) {
      if (place.of == TiedPlace::Of::dst) {
        any |= kept.has_value();
        parts.push_back({place.offset, indices_at(place, tie.channels, channels)});
      } else if (place.of == TiedPlace::Of::parameter && kept) {
        auto& dims = changed.parameters[place.parameter];
        dims.resize(std::max(dims.size(), static_cast<std::size_t>(place.dim) + 1));
        dims[static_cast<std::size_t>(place.dim)] = indices_at(place, tie.channels, channels);
      }
    }
  }
  if (!any) return changed;
  std::ranges::sort(parts, {}, &ResultPart::offset);
  changed.channels.emplace();
  for (const ResultPart& part : parts)
    changed.channels->insert(changed.channels->end(), part.map.begin(), part.map.end());
  return changed;
}

/// Adds the maps of the node's parameters to `all`. Refuses a map that differs from that of another node with the same
/// parameter.
void collect(const Graph& graph, const Graph::Node& n, const ChangedNode& changed, ParameterMaps& all) {
  for (const ParameterSpec& spec : n.layer->parameters(graph.source_shapes(n))) {
    const auto found = changed.parameters.find(spec.name);
    ParameterMap map{.indices = found == changed.parameters.end() ? std::vector<IndexMap>() : found->second};
    map.indices.resize(static_cast<std::size_t>(spec.shape.rank()));
    const auto [entry, is_new] = all.emplace(n.parameter(spec.name), map);
    if (!is_new && !(entry->second == map))
      refuse("it shares {} with another node, whose channels change in another way", entry->first);
  }
}

/// The graph with other widths. `width(n)`: the extent of the node's channel_dim().
Graph rebuild(const Graph& graph, const std::function<std::int64_t(const Graph::Node&)>& width) {
  Graph g;
  for (const Graph::Node& n : graph.nodes()) {
    const int dim = channel_dim(n);
    const bool wide = n.shape.shape.rank() > dim;
    const std::int64_t channels = wide ? width(n) : 0;
    if (n.is_input()) {
      Shape sample(std::span(n.shape.shape.begin() + 1, n.shape.shape.end()));
      if (n.is_state) {
        sample[dim - 1] = channels;
        g.state(n.name, sample);
      } else {
        g.input(n.name, sample, n.shape.dtype);
      }
      continue;
    }
    const auto before = graph.source_shapes(n);
    std::vector<Var> srcs;
    std::vector<ValueShape> now;
    for (const int s : n.srcs) now.push_back(srcs.emplace_back(&g, s).shape());
    auto layer = n.layer->with_channels(before, now, channels);
    g.add(layer ? layer : n.layer, srcs, n.name, n.shared);
  }
  for (const auto& [name, node] : graph.outputs()) g.set_output(name, {&g, node});
  if (graph.loss() >= 0) g.set_loss({&g, graph.loss()});
  return g;
}

/// What becomes of each node, and the maps of the parameters.
struct AllChanges {
  std::vector<ChangedNode> nodes;
  ParameterMaps maps;
};

AllChanges change_nodes(const Graph& graph, const KeptChannels& channels) {
  for (const auto& [name, list] : channels)
    if (std::ranges::none_of(graph.nodes(), [&](const auto& n) { return n.name == name; }))
      refuse("channels are given for the node '{}', but the network has no such node", name);
  AllChanges all;
  for (const Graph::Node& n : graph.nodes()) {
    try {
      ChangedNode changed = change_node(graph, n, all.nodes, given_for(n, channels));
      collect(graph, n, changed, all.maps);
      all.nodes.push_back(std::move(changed));
    } catch (const InputError& e) {
      refuse("{}: {}", n.name, e.what());
    }
  }
  std::erase_if(all.maps, [](const auto& entry) {
    return std::ranges::none_of(entry.second.indices, [](const IndexMap& m) { return m.has_value(); });
  });
  return all;
}

}  // namespace

ParameterMaps channel_maps(const Graph& graph, const KeptChannels& channels) {
  return change_nodes(graph, channels).maps;
}

NetworkChange change_channels(const Graph& graph, const KeptChannels& channels) {
  AllChanges all = change_nodes(graph, channels);
  const Graph::Node* first = graph.nodes().data();
  return {rebuild(graph,
                  [&](const Graph::Node& n) {
                    const IndexMap& kept = all.nodes[static_cast<std::size_t>(&n - first)].channels;
                    return kept ? std::ssize(*kept) : n.shape.shape[channel_dim(n)];
                  }),
          std::move(all.maps)};
}

Parameters changed_parameters(const Parameters& parameters, const NetworkChange& change,
                              const std::vector<std::string>& moments) {
  Parameters next = parameters.remap(change.graph, change.maps);
  for (const auto& [name, values] : change.values) next.set(next.at(name), values);
  for (Parameter& p : next.all())  // those of new layers have none yet
    if (p.kind == ParameterKind::trained)
      while (p.start_moments.size() < moments.size())
        p.start_moments.emplace_back(static_cast<std::size_t>(p.shape.elements()));
  for (const auto& [name, factors] : change.gradient_factors) {
    Parameter& p = next.at(name);
    for (std::size_t m = 0; m < p.start_moments.size(); ++m) {
      const bool squares = m < moments.size() && moments[m].ends_with("_sq");
      auto& of_parameter = p.start_moments[m];
      for (std::size_t e = 0; e < of_parameter.size(); ++e)
        of_parameter[e] *= squares ? factors.at(e) * factors.at(e) : factors.at(e);
    }
  }
  return next;
}

Graph with_widths(const Graph& graph, const Topology& topology) {
  std::map<std::string, Shape> shapes;
  for (const Topology::Node& n : topology.nodes) shapes[n.name] = n.shape;
  return rebuild(graph, [&](const Graph::Node& n) {
    const auto found = shapes.find(n.name);
    const int dim = channel_dim(n);
    const bool fits = found != shapes.end() && found->second.rank() == n.shape.shape.rank();
    return fits ? found->second[dim] : n.shape.shape[dim];
  });
}

}  // namespace keelson
