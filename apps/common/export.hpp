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
  std::map<std::string, std::string> metadata;  ///< facts that users of the file need to make inputs from their data
};

/// Defines the subcommand `export` with the options --checkpoint, --onnx and those of the device. The subcommand writes
/// the network of the checkpoint as an ONNX model and prints the model's inputs and outputs. `make` returns the
/// checkpoint's network. Only rank 0 works.
Subcommand& define_export(CommandLine& line, std::function<ExportedNetwork(const CheckpointReader&)> make);

/// The shape of a sample of the input "x", as the checkpoint stores it. Throws InputError if the checkpoint does not
/// store it, or if the shape has not `rank` dimensions.
Shape stored_input_shape(const CheckpointReader& checkpoint, int rank);

}  // namespace keelson::app
