#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/prune/unit_groups.hpp"

namespace keelson {

/// What the channels of a value do on some samples, by channel.
struct ChannelStatistics {
  std::vector<double> mean, variance;  ///< over samples and pixels
  std::vector<char> active;            ///< whether the channel is ever another number than 0
};
/// By the node that makes the value.
using ValueStatistics = std::map<int, ChannelStatistics>;
/// Values of parameters and statistics in plain order, by name.
using ParameterValues = std::map<std::string, std::vector<float>>;

/// A unit as the criteria see it.
struct UnitFacts {
  bool active = true;    ///< some channel of the unit that is multiplied is ever another number than 0
  double variance = 0;   ///< mean over the unit's channels that layers multiply
  double effect = 0;     ///< sqrt of the sum of a^2 variance over all elements a that multiply the unit: |a_j| sd(h_j)
  double magnitude = 0;  ///< the same with variance + mean^2: the effect on layers that could not add the mean instead
  double outgoing = 0;   ///< |a_j|: Euclidean norm of all elements that multiply the unit
  std::vector<double> incoming = {};  ///< w_j: all trained elements that help to make the unit, biases too
};

/// The facts of all units of a group. `statistics` of all values that a layer multiplies (UnitReader::value).
std::vector<UnitFacts> unit_facts(const Graph& graph, const UnitGroup& group, const ParameterValues& values,
                                  const ValueStatistics& statistics);

/// When a unit can go.
struct UnitCriteria {
  double constant = 1e-3;   ///< variance below this share of the group's mean variance
  double no_effect = 1e-2;  ///< effect below this share of the group's median effect
  double angle = 20;        ///< degrees between the incoming weights of two units of which one can go
};

/// A unit that can go, and what takes its place.
struct UnitRemoval {
  /// dead: never another number than 0; constant: hardly varies; no_effect: what it adds to the layers that read it
  /// hardly varies; twin: another unit does the same; redundant: a linear combination of the others does nearly the
  /// same (UnitRedundancy).
  enum class Reason : std::uint8_t { dead, constant, no_effect, twin, redundant };
  std::int64_t unit = 0;         ///< its number in the group
  Reason reason = Reason::dead;  ///< why it can go
  std::int64_t twin = -1;        ///< of a twin: the unit that stays
  double factor = 1;  ///< of a twin: the removed unit's outgoing weights, times this, are added to those of `twin`
};
/// "dead", "constant", "no effect", "twin" or "redundant".
std::string to_string(UnitRemoval::Reason reason);

/// The units that can go, those with the least effect first: dead ones, then constant ones, then those without effect,
/// then twins, by |a_j|^2 |w_i - w_j|^2 (S. Srinivas and R. V. Babu, "Data-free Parameter Pruning for Deep Neural
/// Networks", arXiv 1507.06149). Units whose mean cannot be added to biases instead (a layer without bias, a recurrent
/// layer) are constant or without effect only by their magnitude. Twins of units behind ReLU, leaky ReLU and layers
/// that a positive factor passes through are found by direction, behind tanh with either sign; else the distance of the
/// weights must be as small as the angle says. At most `most` units; a unit that stays in the place of a twin is not
/// among them. Ties are broken by the unit's number.
std::vector<UnitRemoval> units_to_remove(const Graph& graph, const UnitGroup& group,
                                         const std::vector<UnitFacts>& facts, const UnitCriteria& criteria,
                                         std::int64_t most);

/// Changes `values` so that the rest of the network does without these units: adds the mean of constant units and of
/// units without effect to the biases of the layers that multiply them, and outgoing weights of twins to those of the
/// units that stay. Not for redundant units, which UnitRedundancy::replace() replaces.
void compensate(const UnitGroup& group, const std::vector<UnitRemoval>& removals, const ValueStatistics& statistics,
                const std::map<std::string, Shape>& shapes, ParameterValues& values);

}  // namespace keelson
