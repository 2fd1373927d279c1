#pragma once

#include <string>
#include <vector>

#include "engine/ops/conv.hpp"
#include "engine/plan/program.hpp"

namespace keelson {

/// A dense layer or a convolution in the backward pass: y = W [a; 1] for each row or position, where a is a row or a
/// window of the source (UpdateRule::append_observation).
struct LayerProduct {
  std::string weights, bias;      ///< names in Parameters; bias: empty if the layer has none
  ops::ConvParams window = {};    ///< of a convolution; an empty kernel: a dense layer
  BufferId src = no_buffer;       ///< (rows, features) or (N, C, spatial...), strided; f32, bf16 or f16
  BufferId diff_dst = no_buffer;  ///< gradient of y, before the activation, as backward passes make it; as src
};

/// What an optimizer has observed of a layer.
struct Observation {
  LayerProduct product;          ///< its buffers have their descs, but no longer their values
  std::vector<BufferId> values;  ///< as UpdateRule::append_observation() has returned them
};

}  // namespace keelson
