#include "engine/prune/unit_groups.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace keelson {

namespace {

using Of = TiedPlace::Of;

/// All dimensions that ties name, and which of their indices belong together: sets of indices, joined by each tie.
class TiedIndices {
 public:
  explicit TiedIndices(const Graph& graph) : graph_(graph) {
    for (int n = 0; n < std::ssize(graph.nodes()); ++n) join_ties_of(n);
    for (int n = 0; n < std::ssize(graph.nodes()); ++n) fix_untied(n);
    for (const auto& output : graph.outputs()) fix_value(output.second);
  }

  std::vector<UnitGroup> groups();

 private:
  struct Axis {
    UnitPlace place;
    std::int64_t first, extent;  ///< its indices are the elements first, first + 1, ...
    bool fixed = false;
  };

  static bool is_value(const TiedPlace& p, int src) {
    return src < 0 ? p.of == Of::dst : p.of == Of::src && p.src == src;
  }

  Axis& axis_of(int node, const TiedPlace& p) {
    const Graph::Node& n = graph_.nodes()[static_cast<std::size_t>(node)];
    UnitPlace place{.dim = p.dim};
    if (p.of == Of::parameter)
      place.parameter = n.parameter(p.parameter);
    else
      place.node = p.of == Of::dst ? node : n.srcs[static_cast<std::size_t>(p.src)];
    const auto [found, is_new] = numbers_.try_emplace({place.node, place.parameter, place.dim}, axes_.size());
    if (is_new) {
      const std::int64_t extent =
          p.of == Of::parameter ? parameter_shape(n, p.parameter)[p.dim] : value_shape(place.node)[p.dim];
      axes_.push_back({place, std::ssize(parents_), extent});
      for (std::int64_t i = 0; i < extent; ++i) parents_.push_back(std::ssize(parents_));
    }
    return axes_[found->second];
  }

  const Shape& value_shape(int node) const { return graph_.nodes()[static_cast<std::size_t>(node)].shape.shape; }

  Shape parameter_shape(const Graph::Node& n, const std::string& own) const {
    const auto specs = n.layer->parameters(graph_.source_shapes(n));
    const auto found = std::ranges::find(specs, own, &ParameterSpec::name);
    KEELSON_EXPECT(found != specs.end());
    return found->shape;
  }

  std::int64_t root(std::int64_t i) {
    auto& p = parents_;
    while (p[static_cast<std::size_t>(i)] != i)
      i = p[static_cast<std::size_t>(i)] = p[static_cast<std::size_t>(p[static_cast<std::size_t>(i)])];
    return i;
  }

  void join_ties_of(int node) {
    const Graph::Node& n = graph_.nodes()[static_cast<std::size_t>(node)];
    for (const ChannelTie& tie : n.layer->channel_ties(graph_.source_shapes(n))) {
      std::vector<std::int64_t> joined(static_cast<std::size_t>(tie.channels), -1);
      for (const TiedPlace& p : tie.places) {
        Axis& axis = axis_of(node, p);
        if (p.of == Of::parameter) {
          if (p.reads)
            axis.place.readers.push_back(reader_of(node, tie, p));
          else
            axis.place.makes = true;
        }
        for (std::int64_t u = 0; u < tie.channels; ++u)
          for (const auto i : p.indices(u, tie.channels)) {
            KEELSON_EXPECT(i < axis.extent);
            std::int64_t& with = joined[static_cast<std::size_t>(u)];
            if (with < 0) with = axis.first + i;
            // The smallest element is the root, so that units have the order of their first channels.
            const auto [low, high] = std::minmax({root(with), root(axis.first + i)});
            parents_[static_cast<std::size_t>(high)] = low;
          }
      }
    }
  }

  /// The layer `node`, which multiplies the channels of `tie` by the elements at `p`.
  UnitReader reader_of(int node, const ChannelTie& tie, const TiedPlace& p) const {
    const Graph::Node& n = graph_.nodes()[static_cast<std::size_t>(node)];
    const auto src = std::ranges::find(tie.places, Of::src, &TiedPlace::of);
    // A layer that multiplies its own result is recurrent.
    if (std::ranges::find(tie.places, Of::dst, &TiedPlace::of) != tie.places.end()) return {.value = node};
    KEELSON_EXPECT(src != tie.places.end());
    UnitReader reader{.value = n.srcs[static_cast<std::size_t>(src->src)]};
    for (const ChannelTie& made : n.layer->channel_ties(graph_.source_shapes(n))) {
      if (std::ranges::find(made.places, Of::dst, &TiedPlace::of) == made.places.end()) continue;
      for (const TiedPlace& other : made.places) {
        if (other.parameter == p.parameter) reader.dst_dim = other.dim;
        if (other.parameter == "bias") reader.bias = n.parameter("bias");
      }
    }
    return reader;
  }

  void fix_value(int node) {
    for (Axis& axis : axes_)
      if (axis.place.node == node) axis.fixed = true;
  }

  /// Channels that a layer makes or reads without a tie for them stay.
  void fix_untied(int node) {
    const Graph::Node& n = graph_.nodes()[static_cast<std::size_t>(node)];
    const auto ties = n.layer->channel_ties(graph_.source_shapes(n));
    for (int src = -1; src < std::ssize(n.srcs); ++src) {
      const int value = src < 0 ? node : n.srcs[static_cast<std::size_t>(src)];
      for (Axis& axis : axes_)
        if (axis.place.node == value && std::ranges::none_of(ties, [&](const ChannelTie& tie) {
              return std::ranges::any_of(
                  tie.places, [&](const TiedPlace& p) { return is_value(p, src) && p.dim == axis.place.dim; });
            }))
          axis.fixed = true;
    }
  }

  std::string name_of(const UnitGroup& group) const {
    const UnitPlace* best = nullptr;
    for (const UnitPlace& p : group.places) {
      if (p.node < 0) continue;
      const Graph::Node& n = graph_.nodes()[static_cast<std::size_t>(p.node)];
      if (n.layer->parameters(graph_.source_shapes(n)).empty()) continue;
      if (!best || p.indices[0].size() < best->indices[0].size()) best = &p;
    }
    return graph_.nodes()[static_cast<std::size_t>((best ? *best : group.places[0]).node)].name;
  }

  const Graph& graph_;
  std::map<std::tuple<int, std::string, int>, std::size_t> numbers_;  ///< of the axes
  std::vector<Axis> axes_;
  std::vector<std::int64_t> parents_;
};

std::vector<UnitGroup> TiedIndices::groups() {
  // The indices of each unit, by axis.
  std::map<std::int64_t, std::map<std::size_t, std::vector<std::int64_t>>> units;
  for (std::size_t a = 0; a < axes_.size(); ++a)
    for (std::int64_t i = 0; i < axes_[a].extent; ++i) units[root(axes_[a].first + i)][a].push_back(i);
  // Units of one group lie in the same axes, with equally many indices in each.
  std::map<std::vector<std::pair<std::size_t, std::size_t>>, std::size_t> numbers;
  std::vector<UnitGroup> groups;
  std::vector<std::vector<std::size_t>> axes_of;
  for (auto& [first, by_axis] : units) {
    std::vector<std::pair<std::size_t, std::size_t>> key;
    for (const auto& [a, indices] : by_axis) key.emplace_back(a, indices.size());
    const auto [found, is_new] = numbers.try_emplace(key, groups.size());
    if (is_new) {
      UnitGroup& group = groups.emplace_back();
      auto& order = axes_of.emplace_back();
      for (const bool values : {true, false})
        for (const auto& [a, count] : key) {
          if ((axes_[a].place.node >= 0) != values) continue;
          order.push_back(a);
          group.places.push_back(axes_[a].place);
          group.fixed |= axes_[a].fixed;
        }
    }
    UnitGroup& group = groups[found->second];
    ++group.units;
    for (std::size_t p = 0; p < group.places.size(); ++p)
      group.places[p].indices.push_back(std::move(by_axis.at(axes_of[found->second][p])));
  }
  for (UnitGroup& group : groups) group.name = name_of(group);
  return groups;
}

}  // namespace

std::vector<UnitGroup> unit_groups(const Graph& graph) { return TiedIndices(graph).groups(); }

bool makes_channels(const Graph& graph, const Graph::Node& n) {
  const auto ties = n.layer->channel_ties(graph.source_shapes(n));
  return std::ranges::any_of(ties, [](const ChannelTie& tie) {
    return std::ranges::find(tie.places, Of::dst, &TiedPlace::of) != tie.places.end() &&
           std::ranges::find(tie.places, Of::src, &TiedPlace::of) == tie.places.end();
  });
}

NetworkChange keep_units(const Graph& graph, const std::vector<UnitGroup>& groups,
                         const std::vector<std::vector<std::int64_t>>& keep) {
  KEELSON_EXPECT(keep.size() == groups.size());
  KeptChannels channels;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const UnitGroup& group = groups[g];
    if (keep[g].empty()) refuse("{}: no unit of {} is left: keep one at least", group.name, group.units);
    for (std::size_t k = 0; k < keep[g].size(); ++k)
      if (keep[g][k] < 0 || keep[g][k] >= group.units || (k > 0 && keep[g][k] <= keep[g][k - 1]))
        refuse("{}: unit {}: expected 0 to {} in ascending order", group.name, keep[g][k], group.units - 1);
    if (std::ssize(keep[g]) == group.units) continue;
    if (group.fixed)
      refuse("{}: its {} units cannot be removed, since inputs, outputs or layers depend on their number", group.name,
             group.units);
    for (const UnitPlace& p : group.places)
      if (p.node >= 0) channels.try_emplace(graph.nodes()[static_cast<std::size_t>(p.node)].name);
  }
  // A value may have channels of several groups.
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const UnitPlace& p : groups[g].places) {
      if (p.node < 0) continue;
      const auto found = channels.find(graph.nodes()[static_cast<std::size_t>(p.node)].name);
      if (found == channels.end()) continue;
      for (const auto u : keep[g]) {
        const auto& indices = p.indices[static_cast<std::size_t>(u)];
        found->second.insert(found->second.end(), indices.begin(), indices.end());
      }
    }
  for (const Graph::Node& n : graph.nodes())
    if (!makes_channels(graph, n)) channels.erase(n.name);
  for (auto& entry : channels) std::ranges::sort(entry.second);
  return change_channels(graph, channels);
}

}  // namespace keelson
