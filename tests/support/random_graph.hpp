#pragma once

#include <cstdint>

#include "engine/graph/graph.hpp"

namespace keelson::testing {

/// A small network of layers that the seed draws: convolutions (also grouped, one filter or several per channel,
/// transposed), normalizations, all activations, pooling, residual sums, branches that are concatenated, flattening in
/// both orders, dense layers; one of three is a recurrent network with embedding, LSTM or GRU layers and all heads.
/// Output "prediction", and a loss.
Graph random_graph(std::uint64_t seed);

}  // namespace keelson::testing
