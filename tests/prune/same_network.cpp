#include "tests/prune/same_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/philox.hpp"
#include "tests/support/network_runs.hpp"

namespace keelson::testing {

namespace {

/// Sets the elements of the units that go, in dimension `dim`, to zero.
void clear(std::vector<float>& values, const Shape& shape, const UnitPlace& place,
           const std::vector<std::int64_t>& keep) {
  std::int64_t behind = 1;
  for (int d = place.dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  std::vector<char> goes(static_cast<std::size_t>(shape[place.dim]));
  for (std::int64_t u = 0; u < std::ssize(place.indices); ++u)
    if (!std::ranges::binary_search(keep, u))
      for (const auto i : place.indices[static_cast<std::size_t>(u)]) goes[static_cast<std::size_t>(i)] = 1;
  for (std::int64_t e = 0; e < std::ssize(values); ++e)
    if (goes[static_cast<std::size_t>(e / behind % shape[place.dim])]) values[static_cast<std::size_t>(e)] = 0;
}

}  // namespace

std::vector<std::vector<std::int64_t>> random_units(const std::vector<UnitGroup>& groups, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> keep;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& units = keep.emplace_back();
    const auto number = [&](std::int64_t i) {
      return philox::uniform(philox::Key{seed, 7, g}, static_cast<std::uint64_t>(i));
    };
    for (std::int64_t u = 0; u < groups[g].units; ++u)
      if (groups[g].fixed || number(u) < 0.6f) units.push_back(u);
    if (std::ssize(units) < 2) {
      units.clear();
      for (std::int64_t u = 0; u < std::min<std::int64_t>(groups[g].units, 2); ++u) units.push_back(u);
    }
  }
  return keep;
}

void expect_same_without_units(Context& context, const Graph& graph, const std::vector<std::vector<std::int64_t>>& keep,
                               std::uint64_t seed, double tolerance) {
  const auto groups = unit_groups(graph);
  const NetworkChange change = keep_units(graph, groups, keep);
  Parameters old(graph, context, seed);
  const NetworkInputs inputs = random_inputs(graph, seed);
  NetworkInputs fewer = inputs;
  set_random_values(old, seed);
  train_step(context, graph, old, random_inputs(graph, seed + 1000));  // for moments that are not zero
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const UnitPlace& place : groups[g].places) {
      if (!place.readers.empty()) {
        Parameter& p = old.at(place.parameter);
        auto values = old.get(p);
        clear(values, p.shape, place, keep[g]);
        old.set(p, values);
      }
      const auto* node = place.node < 0 ? nullptr : &graph.nodes()[static_cast<std::size_t>(place.node)];
      if (!node || !node->is_state) continue;
      std::vector<std::int64_t> indices;
      for (const auto u : keep[g]) indices.push_back(place.indices[static_cast<std::size_t>(u)].at(0));
      fewer[node->name] = taken(inputs.at(node->name), place.dim, indices);
    }
  Parameters small = old.remap(change.graph, change.maps);
  const auto want = outputs_of(context, graph, old, inputs), got = outputs_of(context, change.graph, small, fewer);
  for (const auto& [name, values] : want) {
    ASSERT_EQ(got.at(name).size(), values.size()) << name;
    EXPECT_LT(norm_of_difference(got.at(name), values), tolerance) << name;
  }
  const double want_loss = train_step(context, graph, old, inputs);
  EXPECT_NEAR(train_step(context, change.graph, small, fewer), want_loss, tolerance * std::abs(want_loss));
  const Parameters kept = old.remap(change.graph, change.maps);
  for (const Parameter& p : small.all()) {
    const Parameter& w = *kept.find(p.name);
    EXPECT_LT(norm_of_difference(small.get(p), kept.get(w)), tolerance) << p.name;
    if (p.kind != ParameterKind::trained) continue;
    EXPECT_LT(norm_of_difference(small.get(p, 0), w.start_moments.at(0)), tolerance) << "momentum of " << p.name;
  }
}

}  // namespace keelson::testing
