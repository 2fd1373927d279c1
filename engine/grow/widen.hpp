#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/parameters.hpp"
#include "engine/prune/unit_groups.hpp"

namespace keelson {

/// How a network gets units without a change of what the network computes.
enum class WidenMethod : std::uint8_t {
  /// New units are copies of others (Net2Net: T. Chen, I. Goodfellow, J. Shlens, arXiv 1511.05641). The weights that
  /// multiply a unit are divided among the unit and its copies, each weight in unequal parts of its own, so that the
  /// copies have different gradients and part without noise (Y. Wang et al., "LEMON: Lossless Model Expansion", arXiv
  /// 2310.07999).
  copy,
  /// New units have the weights that the layers' Init gives, and the weights that multiply new units are zero.
  zero
};
/// "copy" or "zero".
std::string to_string(WidenMethod method);
/// The opposite of to_string(). Throws InputError for another text.
WidenMethod parse_widen_method(const std::string& text);

/// What becomes of a UnitGroup.
struct Widening {
  std::int64_t units = 0;                  ///< how many there are then, at least as many as before
  WidenMethod method = WidenMethod::copy;  ///< of a group that cannot be copied: zero is taken
};

/// Whether copies of the group's units can leave the network's results as they were. Not if the same elements make
/// units and multiply them (an embedding that is also the output layer).
bool can_copy(const UnitGroup& group);

/// The network of widen_units() alone. Throws as widen_units().
Graph wider_network(const Graph& graph, const std::vector<UnitGroup>& groups, const std::vector<Widening>& widening);

/// The network whose group g has widening[g].units units, with the old units before the new ones. New unit u is a copy
/// of unit u modulo the old number. The outputs are those of `graph`, up to the rounding of sums.
///
/// Weights of a copy that help to make it are equal to those of the unit, and their gradients are 1/n of those of the
/// unit before, where n units share the weights that multiply them (NetworkChange::gradient_factors). A weight is
/// divided into n parts of 1 + spread r_k over their sum, where r_k is uniform in -1 to 1 and a function of the seed of
/// `parameters`, the parameter's name and width, and the element; with `spread` 0 the parts are equal.
///
/// `groups`: unit_groups(graph). Throws InputError, naming the group, for fewer units than before, and for another
/// number of units of a group that is fixed.
NetworkChange widen_units(const Graph& graph, const std::vector<UnitGroup>& groups,
                          const std::vector<Widening>& widening, const Parameters& parameters, double spread = 0.5);

}  // namespace keelson
