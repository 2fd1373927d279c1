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

/// What a layer writes its ONNX operators with (Layer::to_onnx): in evaluation, for a batch of any size. Values go by
/// their names in the file.
///
///   void to_onnx(OnnxBuilder& b) const override { b.set_dst(b.op("Relu", {b.src(0)})); }
///
/// The node's operators read values of other nodes, parameters and constants. set_dst() says which value is the node's
/// result. Operators whose results nobody reads do not come into the file.
class OnnxBuilder {
 public:
  /// For a graph whose parameters are these. Both must outlive the builder and `model`, to which the builder appends.
  /// No value gets a name of `reserved`.
  OnnxBuilder(const Graph& graph, const Parameters& parameters, onnx::Model& model, std::set<std::string> reserved);

  // --- the node
  const Graph::Node& node() const;               ///< the node whose layer writes
  const Graph::Node& src_node(int i) const;      ///< the node that makes source i
  const Shape& src_shape(int i) const;           ///< of source i, for one sample
  const Shape& dst_shape() const;                ///< of the node's result, for one sample
  const std::string& src(int i) const;           ///< source i
  const Graph::Node& node_at(int index) const;   ///< by its index in the graph
  const std::string& value_of(int index) const;  ///< the result of a node before this one, by its index in the graph

  // --- constants
  std::string parameter(const std::string& own);           ///< by the layer's own name: "weights"
  std::string scalar(float value);                         ///< of rank 0
  std::string integers(std::vector<std::int64_t> values);  ///< int64, of rank 1
  /// A constant that is made of parameters, in plain order, while the file is written.
  std::string made_of(const std::string& label, const Shape& shape,
                      const std::function<std::vector<float>(const Parameters&)>& make);
  /// Elements of a parameter in plain order, by the full name: "conv1/weights". Throws Error for an unknown name.
  static std::vector<float> values(const Parameters& parameters, const std::string& name);
  /// The target of a Reshape to (-1, last...): the first dimension grows with the batch.
  std::string rows_of(const Shape& last);

  // --- operators
  /// Appends an operator with one result and returns the result's name.
  std::string op(const std::string& type, const std::vector<std::string>& inputs,
                 std::vector<onnx::Attribute> attributes = {});
  /// Appends an operator with several results.
  std::vector<std::string> ops(const std::string& type, const std::vector<std::string>& inputs,
                               std::vector<onnx::Attribute> attributes, int results);
  /// The node's result: of one of the node's own operators, whose result then gets the node's name, or any other value.
  void set_dst(const std::string& value);
  /// What the state that source `i` is will be in the next call: becomes an output of the model.
  void set_next_state(int i, const std::string& value);
  /// Throws InputError: "<node> (<kind>) cannot be exported to ONNX: <why>".
  [[noreturn]] void refuse_layer(std::string_view why) const;

 private:
  friend class OnnxExport;
  void add_input(int node);  ///< the result of this node is an input of the model: the caller gives it
  void add_layer(int node);  ///< lets the node's layer write
  std::string unique(const std::string& wish);

  const Graph& graph_;
  const Parameters& parameters_;
  onnx::Model& model_;
  std::set<std::string> names_;
  std::map<std::string, std::string> parameter_names_;
  std::vector<std::string> results_;        ///< by node; empty: not written
  std::map<int, std::string> next_states_;  ///< by the state's node
  int node_ = -1;                           ///< whose layer writes
  std::size_t first_op_ = 0;                ///< of the node
  std::string result_name_;                 ///< of the node; empty: it has no result of its own
};

}  // namespace keelson
