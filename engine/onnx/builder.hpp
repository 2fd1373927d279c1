#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/onnx/model.hpp"

namespace keelson {

/// With this builder a layer writes its ONNX operators (Layer::to_onnx), for evaluation and a batch of any size. Values
/// are identified by their names in the file.
///
///   void to_onnx(OnnxBuilder& b) const override { b.set_dst(b.op("Relu", {b.src(0)})); }
///
/// The node's operators read values of other nodes, parameters and constants. set_dst() defines the node's result.
/// Operators whose results are not read are left out of the file.
class OnnxBuilder {
 public:
  /// For a graph whose parameters are these. Both must outlive the builder and `model`, to which the builder appends.
  /// No value gets a name from `reserved`.
  OnnxBuilder(const Graph& graph, const Parameters& parameters, onnx::Model& model, std::set<std::string> reserved);

  // --- the node
  const Graph::Node& node() const;               ///< the node whose layer is being written
  const Graph::Node& src_node(int i) const;      ///< the node that makes source i
  const Shape& src_shape(int i) const;           ///< shape of source i, for one sample
  const Shape& dst_shape() const;                ///< shape of the node's result, for one sample
  const std::string& src(int i) const;           ///< source i
  const Graph::Node& node_at(int index) const;   ///< the node with this index in the graph
  const std::string& value_of(int index) const;  ///< the result of an earlier node, by its index in the graph

  // --- constants
  std::string parameter(const std::string& own);           ///< by the layer's own name: "weights"
  std::string scalar(float value);                         ///< a scalar constant (rank 0)
  std::string integers(std::vector<std::int64_t> values);  ///< an int64 constant of rank 1
  /// A constant that is computed from parameters, in plain order, while the file is written.
  std::string made_of(const std::string& label, const Shape& shape,
                      const std::function<std::vector<float>(const Parameters&)>& make);
  /// The elements of a parameter in plain order, by its full name: "conv1/weights". Throws Error for an unknown name.
  static std::vector<float> values(const Parameters& parameters, const std::string& name);
  /// The target shape of a Reshape to (-1, last...): the first dimension grows with the batch.
  std::string rows_of(const Shape& last);

  // --- operators
  /// Appends an operator with one result and returns the result's name.
  std::string op(const std::string& type, const std::vector<std::string>& inputs,
                 std::vector<onnx::Attribute> attributes = {});
  /// Appends an operator with several results.
  std::vector<std::string> ops(const std::string& type, const std::vector<std::string>& inputs,
                               std::vector<onnx::Attribute> attributes, int results);
  /// Sets the node's result: a result of one of the node's own operators, which then gets the node's name, or any other
  /// value.
  void set_dst(const std::string& value);
  /// Sets the next value of the state that is source `i`. The value becomes an output of the model.
  void set_next_state(int i, const std::string& value);
  /// Throws InputError: "<node> (<kind>) cannot be exported to ONNX: <why>".
  [[noreturn]] void refuse_layer(std::string_view why) const;

 private:
  friend class OnnxExport;
  void add_input(int node);  ///< makes the result of this node an input of the model
  void add_layer(int node);  ///< writes the node's layer
  std::string unique(const std::string& requested);

  const Graph& graph_;
  const Parameters& parameters_;
  onnx::Model& model_;
  std::set<std::string> names_;
  std::map<std::string, std::string> parameter_names_;
  std::vector<std::string> results_;        ///< name of each node's result; empty: not written
  std::map<int, std::string> next_states_;  ///< next value of each state, by the state's node
  int node_ = -1;                           ///< the node whose layer is being written
  std::size_t first_op_ = 0;                ///< first operator of the node
  std::string result_name_;                 ///< result of the node; empty: it has no result of its own
};

}  // namespace keelson
