#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/onnx/model.hpp"
#include "engine/onnx/write.hpp"

namespace keelson {

/// Texts of a model file besides the network.
struct OnnxOptions {
  std::string name = "network";                      ///< name of the graph in the file
  std::string doc = {};                              ///< description for readers
  std::map<std::string, std::string> metadata = {};  ///< texts for programs, e.g. a vocabulary
  /// If the file would be larger, the weights are written to a second file (onnx::write()).
  std::int64_t largest_file = onnx::largest_message;
};

/// The result of export_onnx().
struct OnnxSummary {
  std::vector<onnx::Value> inputs, outputs;  ///< states included
  std::filesystem::path data = {};           ///< the second file; empty: there is none
};

/// Writes the network with the present values of its parameters as an ONNX model (opset 17, IR version 8) that computes
/// the same as a plan without training: dropout does nothing, batch normalization uses the running statistics.
///
/// The model has the outputs of Graph::set_output(), and the inputs on which they depend, with their names in the
/// graph, in plain layout. Nodes on which no output depends are left out, among them the loss and its target. The batch
/// dimension is symbolic ("batch"). The value of a node has the node's name, and its parameters are float32
/// initializers with their names in the graph ("conv1/weights") if ONNX has the same layout. A recurrent state
/// "lstm1_state" is an input, and the output "lstm1_state_next" is its value for the next call.
///
/// Parameters without memory are written with their initial values. Throws InputError for a graph without outputs, for
/// names that are not distinct in ONNX, and, naming node and kind, for a layer that cannot be exported; Error if the
/// file cannot be written. Makes no collective calls.
OnnxSummary export_onnx(const Graph& graph, const Parameters& parameters, const std::filesystem::path& file,
                        const OnnxOptions& options = {});

}  // namespace keelson
