#include "engine/grow/widen.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/philox.hpp"

namespace keelson {

namespace {

/// Neighbouring channels of a unit, in a value.
struct ChannelRun {
  std::size_t first, count;  ///< places in the unit's list of indices
};

/// The runs of neighbours in ascending indices. New units come behind each run of the last unit.
std::vector<ChannelRun> runs_of(const std::vector<std::int64_t>& indices) {
  std::vector<ChannelRun> runs;
  for (std::size_t k = 0; k < indices.size(); ++k)
    if (k > 0 && indices[k] == indices[k - 1] + 1)
      ++runs.back().count;
    else
      runs.push_back({k, 1});
  return runs;
}

/// By the channel that the new channels follow: for each new channel the old one, or -1.
using Insertions = std::map<std::int64_t, std::vector<std::int64_t>>;

void insert_units(const UnitGroup& group, const UnitPlace& place, const Widening& widening, Insertions& all) {
  const auto& last = place.indices.back();
  const bool copies = widening.method == WidenMethod::copy && can_copy(group);
  for (const ChannelRun& run : runs_of(last)) {
    auto& added = all[last[run.first + run.count - 1]];
    for (std::int64_t u = group.units; u < widening.units; ++u) {
      const auto& from = place.indices[static_cast<std::size_t>(u % group.units)];
      for (std::size_t k = run.first; k < run.first + run.count; ++k) added.push_back(copies ? from[k] : -1);
    }
  }
}

/// The channels of all nodes that make channels of groups that become wider.
KeptChannels wider_channels(const Graph& graph, const std::vector<UnitGroup>& groups,
                            const std::vector<Widening>& widening) {
  std::map<int, Insertions> insertions;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const UnitGroup& group = groups[g];
    if (widening[g].units == group.units) continue;
    if (widening[g].units < group.units)
      refuse("{}: {} units: expected {}, as there are, or more", group.name, widening[g].units, group.units);
    if (group.fixed)
      refuse("{}: no unit can be added to its {}, since inputs, outputs or layers depend on their number", group.name,
             group.units);
    for (const UnitPlace& p : group.places)
      if (p.node >= 0 && makes_channels(graph, graph.nodes()[static_cast<std::size_t>(p.node)]))
        insert_units(group, p, widening[g], insertions[p.node]);
  }
  KeptChannels channels;
  for (const auto& [node, added] : insertions) {
    const Graph::Node& n = graph.nodes()[static_cast<std::size_t>(node)];
    auto& list = channels[n.name];
    for (std::int64_t c = 0; c < n.shape.shape[n.is_state ? 2 : 1]; ++c) {
      list.push_back(c);
      if (const auto found = added.find(c); found != added.end())
        list.insert(list.end(), found->second.begin(), found->second.end());
    }
  }
  return channels;
}

/// How often each old index occurs along a dimension of a new parameter.
std::map<std::int64_t, std::vector<std::int64_t>> places_of(const std::vector<std::int64_t>& map) {
  std::map<std::int64_t, std::vector<std::int64_t>> places;
  for (std::int64_t i = 0; i < std::ssize(map); ++i) places[map[static_cast<std::size_t>(i)]].push_back(i);
  return places;
}

/// An array as lines along one of its dimensions.
struct Lines {
  std::int64_t before = 1, extent, behind = 1;

  Lines(const Shape& shape, int dim) : extent(shape[dim]) {
    for (int d = 0; d < dim; ++d) before *= shape[d];
    for (int d = dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  }
  /// Calls f(element at index 0 of the line) for all lines. Elements of a line are `behind` apart.
  template <class F>
  void for_each(F f) const {
    for (std::int64_t b = 0; b < before; ++b)
      for (std::int64_t i = 0; i < behind; ++i) f(b * extent * behind + i);
  }
};

/// Elements that multiply new units become zero, and those that multiply copies are divided among the copies.
void split_outgoing(const Parameter& p, int dim, const std::vector<std::int64_t>& map, std::uint64_t seed,
                    double spread, std::vector<float>& values) {
  const Lines lines(p.shape, dim);
  const philox::Key key{seed, philox::stream_of("widen " + p.name), static_cast<std::uint64_t>(lines.extent)};
  for (const auto& [old, copies] : places_of(map)) {
    if (old >= 0 && copies.size() == 1) continue;
    lines.for_each([&](std::int64_t first) {
      const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(first + i * lines.behind); };
      if (old < 0) {
        for (const auto i : copies) values[at(i)] = 0;
        return;
      }
      const double whole = values[at(copies[0])];
      std::vector<double> parts;
      double sum = 0;
      for (const auto i : copies) sum += parts.emplace_back(1 + spread * (2 * philox::uniform(key, at(i)) - 1));
      double left = whole;
      for (std::size_t k = 0; k + 1 < copies.size(); ++k) {
        const auto part = static_cast<float>(whole * parts[k] / sum);
        values[at(copies[k])] = part;
        left -= part;
      }
      values[at(copies.back())] = static_cast<float>(left);  // of two parts, the sum is `whole` again
    });
  }
}

/// The gradients of weights that make n copies are 1/n of the unit's gradients.
void divide_gradients(const Shape& shape, int dim, const std::vector<std::int64_t>& map, std::vector<float>& factors) {
  const Lines lines(shape, dim);
  for (const auto& [old, copies] : places_of(map)) {
    if (old < 0 || copies.size() == 1) continue;
    if (factors.empty()) factors.assign(static_cast<std::size_t>(shape.elements()), 1);
    lines.for_each([&](std::int64_t first) {
      for (const auto i : copies)
        factors[static_cast<std::size_t>(first + i * lines.behind)] /= static_cast<float>(copies.size());
    });
  }
}

}  // namespace

std::string to_string(WidenMethod method) { return method == WidenMethod::copy ? "copy" : "zero"; }

WidenMethod parse_widen_method(const std::string& text) {
  if (text == "copy") return WidenMethod::copy;
  if (text == "zero") return WidenMethod::zero;
  refuse("method '{}': expected copy or zero", text);
}

bool can_copy(const UnitGroup& group) {
  return std::ranges::none_of(group.places, [](const UnitPlace& p) { return p.makes && !p.readers.empty(); });
}

Graph wider_network(const Graph& graph, const std::vector<UnitGroup>& groups, const std::vector<Widening>& widening) {
  return change_channels(graph, wider_channels(graph, groups, widening)).graph;
}

NetworkChange widen_units(const Graph& graph, const std::vector<UnitGroup>& groups,
                          const std::vector<Widening>& widening, const Parameters& parameters, double spread) {
  KEELSON_EXPECT(widening.size() == groups.size());
  std::set<std::pair<std::string, int>> multiplied;  // dimensions that count units which a layer multiplies
  for (const UnitGroup& group : groups)
    for (const UnitPlace& p : group.places)
      if (!p.readers.empty()) multiplied.emplace(p.parameter, p.dim);
  NetworkChange change = change_channels(graph, wider_channels(graph, groups, widening));
  const Parameters wide = parameters.remap(change.graph, change.maps);
  for (const auto& [name, map] : change.maps) {
    const Parameter& p = *wide.find(name);
    for (int d = 0; d < std::ssize(map.indices); ++d) {
      const IndexMap& indices = map.indices[static_cast<std::size_t>(d)];
      if (!indices) continue;
      if (multiplied.contains({name, d})) {
        auto& values = change.values.try_emplace(name, wide.get(p)).first->second;
        split_outgoing(p, d, *indices, parameters.seed(), spread, values);
      } else if (p.kind == ParameterKind::trained) {
        divide_gradients(p.shape, d, *indices, change.gradient_factors[name]);
      }
    }
  }
  std::erase_if(change.gradient_factors, [](const auto& entry) { return entry.second.empty(); });
  return change;
}

}  // namespace keelson
