#pragma once

#include <functional>
#include <map>
#include <string>

#include "apps/common/evaluation.hpp"
#include "engine/graph/graph.hpp"

namespace keelson::app {

/// A network without its parameters.
struct ExportedNetwork {
  Graph graph;
  std::string name;                             ///< as in checkpoints
  std::map<std::string, std::string> metadata;  ///< what users of the file need to make inputs of their data
};

/// Defines the verb `export`: --checkpoint, the device and --onnx. The verb writes the network of the checkpoint as an
/// ONNX model and prints what its inputs and outputs are. `make` gives the checkpoint's network. Rank 0 works alone.
Verb& define_export(CommandLine& line, std::function<ExportedNetwork(const CheckpointReader&)> make);

/// The shape of a sample of the input "x", of this rank, as the checkpoint tells. Throws InputError for a checkpoint
/// that does not tell.
Shape stored_input_shape(const CheckpointReader& checkpoint, int rank);

}  // namespace keelson::app
