#pragma once

#include "engine/ops/context.hpp"
#include "tests/support/layer_cases.hpp"

namespace keelson::testing {

/// Compares the gradients of all trained parameters of the network, and of the layer's source, with central differences
/// of the network's loss. The network is source -> layer -> mean squared error against numbers, unless the layer makes
/// a loss. A batch has three samples, of which the last one is padding of weight 0. Every call of the network is
/// checked as under KEELSON_CHECK=1 (engine/execute/call_checker.hpp).
///
/// The source is compared as a parameter: a dense layer whose input is the identity makes the source of its weights.
/// The network is also compared with a graph input as its source, since layers plan that case in another way.
void expect_right_gradients(Context& context, const LayerCase& layer);

}  // namespace keelson::testing
