#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "insitu/kernels.hpp"

namespace keelson::insitu {

/// The loss that a network is trained with.
struct Loss {
  std::string kind;                  ///< "mse", "mae", "huber", "cross_entropy"; empty: not trained
  std::vector<float> class_weights;  ///< for cross_entropy; empty: all 1
  bool of_classes() const { return kind == "cross_entropy"; }
};

/// "cross_entropy 1 20". Throws InputError. `model`: for messages.
Loss parse_loss(const std::string& text, const std::string& model);

/// A network with input "x" (channels, extents...), for training also "y", the target, and the output "prediction".
struct Network {
  Graph graph;
  std::string name = "insitu";                ///< RunState::network
  std::map<std::string, std::string> config;  ///< RunState::config
  std::vector<ChannelScale> scales;           ///< one per channel of the input; empty: values are not changed
};

/// The network of a text (docs/in-situ.md), on an input (channels, extents...) of two or three dimensions. Throws
/// InputError that names the layer.
Network network_of_layers(const std::string& layers, const Shape& input, const Loss& loss, const std::string& model);

/// The shape of one sample of the checkpoint's input "x".
Shape stored_input(const CheckpointReader& checkpoint);

/// The network of a checkpoint of keelson-climate, keelson-cosmoflow or keelson_insitu_save, for this input. Throws
/// InputError for a checkpoint of another program.
Network network_of_checkpoint(const CheckpointReader& checkpoint, const Shape& input, const Loss& loss,
                              const std::string& model);

}  // namespace keelson::insitu
