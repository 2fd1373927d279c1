#include "engine/train/detail/growth_ranges.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace keelson {

namespace {

/// The nodes that have one channel for each unit of the group.
std::vector<std::string> layers_of(const Graph& graph, const UnitGroup& group) {
  std::vector<std::string> names;
  for (const UnitPlace& p : group.places)
    if (p.node >= 0 && p.indices[0].size() == 1) names.push_back(graph.nodes()[static_cast<std::size_t>(p.node)].name);
  return names;
}

std::int64_t scaled(const LayerWidth& width, std::int64_t of_program) {
  if (width.units > 0) return width.units;
  return std::max(std::int64_t{1}, std::int64_t{std::llround(width.times * static_cast<double>(of_program))});
}

}  // namespace

detail::GrowthRanges::GrowthRanges(const Graph& graph, const GrowthOptions& options) {
  read_widths(graph, options);
  read_depth(graph, options);
  const bool wider = std::ranges::any_of(by_layer_, [](const auto& r) { return r.second.most > r.second.least; });
  if (!wider && most_copies_.empty())
    refuse(
        "no layer can grow: give a layer more units than it has at first, e.g. \"*\" = [\"0.5x\", \"1x\"] in [widths], "
        "or copies, e.g. \"*\" = 1 in [depth]");
  if (options.parameters) most_parameters_ = scaled(*options.parameters, graph.parameter_count());
}

void detail::GrowthRanges::read_widths(const Graph& graph, const GrowthOptions& options) {
  const auto groups = unit_groups(graph);
  std::vector<WidthRange> of_group(groups.size());
  std::vector<std::string> names;
  if (const auto all = options.widths.find("*"); all != options.widths.end())
    of_group.assign(groups.size(), all->second);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].fixed)
      of_group[g] = {};
    else
      names.push_back(groups[g].name);
  }
  std::map<std::size_t, std::string> given;
  for (const auto& [name, width] : options.widths) {
    if (name == "*") continue;
    const auto found = std::ranges::find_if(groups, [&](const UnitGroup& g) {
      const auto layers = layers_of(graph, g);
      return std::ranges::find(layers, name) != layers.end();
    });
    if (found == groups.end() || found->fixed)
      refuse("the layer '{}' cannot grow: {}; expected one of {}", name,
             found == groups.end() ? "the network has none of this name"
                                   : "inputs, outputs or other layers depend on its width",
             fmt::join(names, ", "));
    const auto g = static_cast<std::size_t>(found - groups.begin());
    if (const auto [other, is_new] = given.emplace(g, name); !is_new)
      refuse("the layers '{}' and '{}' have their units in common: give the width of one of them", other->second, name);
    of_group[g] = width;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const UnitGroup& group = groups[g];
    const UnitRange range{scaled(of_group[g].least, group.units), scaled(of_group[g].most, group.units)};
    if (range.least > group.units)
      refuse("'{}' has {} units at first, but the network has {}: give {} or fewer", group.name, range.least,
             group.units, group.units);
    if (range.most < range.least)
      refuse("'{}' has {} units at first, but at most {}: give {} or more", group.name, range.least, range.most,
             range.least);
    by_layer_[group.name] = range;
    for (const std::string& layer : layers_of(graph, group)) by_layer_.try_emplace(layer, range);
  }
}

void detail::GrowthRanges::read_depth(const Graph& graph, const GrowthOptions& options) {
  if (options.depth.empty()) return;
  std::vector<std::string> names;
  for (const RepeatableLayer& layer : repeatable_layers(graph)) names.push_back(layer.name);
  for (const auto& [name, range] : options.depth) {
    if (name != "*" && std::ranges::find(names, name) == names.end())
      refuse("no copies can follow the layer '{}': expected a convolution or a dense layer with an activation: {}",
             name, names.empty() ? "this network has none" : fmt::format("{}", fmt::join(names, ", ")));
    if (range.most < range.least)
      refuse("'{}' has {} copies at first, but at most {}: give {} or more", name, range.least, range.most,
             range.least);
  }
  for (const std::string& name : names) {
    auto found = options.depth.find(name);
    if (found == options.depth.end()) found = options.depth.find("*");
    if (found == options.depth.end()) continue;
    if (found->second.least > 0) least_copies_[name] = found->second.least;
    if (found->second.most > found->second.least) most_copies_[name] = found->second.most;
  }
}

detail::UnitRange detail::GrowthRanges::units_of(const UnitGroup& group) const {
  auto found = by_layer_.find(group.name);
  if (found == by_layer_.end()) found = by_layer_.find(copied_layer(group.name));
  return found == by_layer_.end() || group.fixed ? UnitRange{group.units, group.units} : found->second;
}

Graph starting_network(const Graph& graph, const GrowthOptions& options) {
  const detail::GrowthRanges ranges(graph, options);
  const Graph deep = with_copies(graph, ranges.least_copies());
  const auto groups = unit_groups(deep);
  std::vector<std::vector<std::int64_t>> keep;
  for (const UnitGroup& group : groups) {
    auto& units = keep.emplace_back(static_cast<std::size_t>(std::min(ranges.units_of(group).least, group.units)));
    std::iota(units.begin(), units.end(), 0);
  }
  Graph start = keep_units(deep, groups, keep).graph;
  if (ranges.most_parameters() > 0 && start.parameter_count() > ranges.most_parameters())
    refuse("the network has {} parameters at first, but at most {}: give more parameters, or fewer units at first",
           start.parameter_count(), ranges.most_parameters());
  return start;
}

}  // namespace keelson
