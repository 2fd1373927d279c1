#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/context.hpp"
#include "engine/prune/unit_groups.hpp"

namespace keelson::testing {

/// Some units of each group that may lose units, at random. At least two units of each group stay.
std::vector<std::vector<std::int64_t>> random_units(const std::vector<UnitGroup>& groups, std::uint64_t seed);

/// The property of removed units: the network whose units have no effect (zeros in all places with readers) and
/// the network without the units have the same outputs, and after a training step of SGD with momentum on the same
/// batch the same loss, parameters, statistics and moments. Differences are relative to the norm of each array,
/// or to 0.01 if that is larger: the gradient of a bias before a normalization is rounding alone.
void expect_same_without_units(Context& context, const Graph& graph, const std::vector<std::vector<std::int64_t>>& keep,
                               std::uint64_t seed, double tolerance = 5e-5);

}  // namespace keelson::testing
