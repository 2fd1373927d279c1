#pragma once

#include <set>
#include <string>

#include "engine/graph/graph.hpp"

namespace keelson {

/// The names of the parameters of two and more dimensions that belong to embeddings or to last layers: layers whose
/// result no other layer with such parameters reads, directly or through layers without them. A classifier's output
/// layer is a last layer, and so is each output layer of a network with several. An embedding that is also the weights
/// of an output layer is among the names.
std::set<std::string> matrices_of_outer_layers(const Graph& graph);

}  // namespace keelson
