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

/// What a model file says besides the network.
struct OnnxOptions {
  std::string name = "network";                      ///< of the graph in the file
  std::string doc = {};                              ///< for people
  std::map<std::string, std::string> metadata = {};  ///< texts for programs, such as a vocabulary
  /// Files that would be larger keep their weights in a second file (onnx::write()).
  std::int64_t largest_file = onnx::largest_message;
};

/// What export_onnx() has written.
struct OnnxSummary {
  std::vector<onnx::Value> inputs, outputs;  ///< with the states
  std::filesystem::path data = {};           ///< the second file; empty: there is none
};

/// Writes the network with the present values of its parameters as an ONNX model (opset 17, IR version 8) that computes
/// what a plan without training computes: dropout passes values on, batch normalization uses the running statistics.
///
/// The model's outputs are those of Graph::set_output(), its inputs those that the outputs depend on, by their names in
/// the graph, in plain layout. All nodes that no output depends on are left out, among them the loss and its target.
/// The batch dimension is symbolic ("batch"). The value of a node has the node's name, and its parameters are float32
/// initializers with their names in the graph ("conv1/weights") where ONNX has the same layout. A recurrent state
/// "lstm1_state" is an input, and the output "lstm1_state_next" is what the next call takes.
///
/// Parameters without memory are written with their initial values. Throws InputError for a graph without outputs, for
/// names that ONNX cannot keep apart, and, naming node and kind, for a layer that cannot be exported; Error where the
/// file cannot be written. Makes no collective calls.
OnnxSummary export_onnx(const Graph& graph, const Parameters& parameters, const std::filesystem::path& file,
                        const OnnxOptions& options = {});

}  // namespace keelson
