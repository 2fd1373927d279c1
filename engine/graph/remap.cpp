#include <algorithm>
#include <numeric>

#include "engine/graph/parameters.hpp"

namespace keelson {

namespace {

/// For each dimension of `to`: the old index for each new index. Refuses a map that does not fit.
std::vector<std::vector<std::int64_t>> complete(const ParameterMap& map, const Parameter& from, const Parameter& to) {
  const auto shapes = [&] {
    return fmt::format("the parameter {} is {} in the new network, and {} is {} in the old one", to.name,
                       to_string(to.shape), from.name, to_string(from.shape));
  };
  const int rank = to.shape.rank();
  if (from.shape.rank() != rank) refuse("{}: give the new parameter another name", shapes());
  if (static_cast<int>(map.indices.size()) > rank)
    refuse("{}, but its map has {} dimensions", shapes(), map.indices.size());
  std::vector<std::vector<std::int64_t>> all;
  for (int d = 0; d < rank; ++d) {
    const bool given = d < static_cast<int>(map.indices.size()) && map.indices[d];
    if (!given && from.shape[d] != to.shape[d])
      refuse("{}: give a map that says which indices of dimension {} stay", shapes(), d);
    auto& indices = all.emplace_back(static_cast<std::size_t>(to.shape[d]));
    std::iota(indices.begin(), indices.end(), 0);
    if (!given) continue;
    indices = *map.indices[d];
    if (static_cast<std::int64_t>(indices.size()) != to.shape[d])
      refuse("{}, but its map has {} indices for dimension {}: expected {}", shapes(), indices.size(), d, to.shape[d]);
    for (const auto i : indices)
      if (i < -1 || i >= from.shape[d])
        refuse("{}, but its map takes index {} of dimension {}: expected 0 to {}, or -1 for a new one", shapes(), i, d,
               from.shape[d] - 1);
  }
  return all;
}

/// For each element of the new array, in plain order: the element of the old array, or -1.
std::vector<std::int64_t> sources(const std::vector<std::vector<std::int64_t>>& indices, const Shape& from) {
  std::vector<std::int64_t> elements{0};
  for (int d = 0; d < from.rank(); ++d) {
    std::vector<std::int64_t> longer;
    longer.reserve(elements.size() * indices[d].size());
    for (const auto e : elements)
      for (const auto i : indices[d]) longer.push_back(e < 0 || i < 0 ? -1 : e * from[d] + i);
    elements = std::move(longer);
  }
  return elements;
}

}  // namespace

Parameters Parameters::remap(const Graph& graph, const ParameterMaps& maps) const {
  for (const Parameter& p : parameters_)
    if (p.part)
      refuse(
          "the network cannot change while it trains: ranks hold parts of the parameter {} "
          "(--channel-parallel, --stages, --spatial). Leave these options out",
          p.name);
  Parameters next(graph, *context_, seed_);
  for (const auto& [name, map] : maps)
    if (!next.find(name))
      refuse("there is a map for the parameter '{}', but the new network has no such parameter", name);
  for (Parameter& p : next.parameters_) {
    const auto given = maps.find(p.name);
    const ParameterMap map = given == maps.end() ? ParameterMap() : given->second;
    const std::string& from = map.from.empty() ? p.name : map.from;
    if (const Parameter* old = find(from))
      carry_over(*old, p, map);
    else if (given != maps.end())
      refuse("the map for the parameter {} takes it from '{}', but the old network has no such parameter", p.name,
             from);
  }
  return next;
}

void Parameters::carry_over(const Parameter& from, Parameter& to, const ParameterMap& map) const {
  const auto elements = sources(complete(map, from, to), from.shape);
  const auto pick = [&](const std::vector<float>& old, std::vector<float> values) {
    for (std::size_t e = 0; e < elements.size(); ++e)
      if (elements[e] >= 0) values[e] = old[static_cast<std::size_t>(elements[e])];
    return values;
  };
  const bool has_new = std::find(elements.begin(), elements.end(), -1) != elements.end();
  to.start = pick(get(from), has_new ? initial_values(to.init, to.name, to.shape, seed_, &context_->device())
                                     : std::vector<float>(elements.size()));
  for (int m = 0; m < static_cast<int>(std::max(from.moments.size(), from.start_moments.size())); ++m)
    to.start_moments.push_back(from.own_shapes.contains(m) ? std::vector<float>()
                                                           : pick(get(from, m), std::vector<float>(elements.size())));
}

}  // namespace keelson
