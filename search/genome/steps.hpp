#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor/shape.hpp"
#include "search/genome/genome.hpp"

namespace keelson::search {

/// One layer of a network, as a list of layers describes it: each reads the result of the one before.
struct Step {
  /// The layer's function in engine/layers/layers.hpp.
  enum class Kind : std::uint8_t {
    reshape,
    rows,  ///< flatten() into rows of `features`
    conv,
    max_pool,
    lstm,
    gru,
    last_step,
    batch_norm,
    activation,
    add,
    dropout,
    flatten,
    dense
  };
  Kind kind = Kind::dense;      ///< what the layer does
  std::string name = {};        ///< of the node
  Shape shape = {};             ///< of a reshape: the sample; of a convolution and a pooling: the kernel
  std::int64_t features = 0;    ///< filters of a convolution, features of a dense layer and of rows, hidden units
  std::int64_t stride = 1;      ///< of a convolution
  bool same = true;             ///< of a convolution: padding
  bool bias = true;             ///< of a convolution and a dense layer
  bool channels_last = false;   ///< of rows: the channels of a pixel are neighbours
  std::string activation = {};  ///< "relu", "leaky_relu", ...
  float rate = 0;               ///< of dropout
  std::string with = {};        ///< of add: the node whose result is added
};

/// The slope of leaky_relu.
constexpr float leaky_slope = 0.01f;

/// The layers of the network of a repaired genome, from x to the prediction.
std::vector<Step> steps_of(const Genome& genome, const Space& space);

}  // namespace keelson::search
