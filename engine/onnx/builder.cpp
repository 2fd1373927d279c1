#include "engine/onnx/builder.hpp"

#include <algorithm>
#include <span>

#include "engine/base/error.hpp"

namespace keelson {

OnnxBuilder::OnnxBuilder(const Graph& graph, const Parameters& parameters, onnx::Model& model,
                         std::set<std::string> reserved)
    : graph_(graph),
      parameters_(parameters),
      model_(model),
      names_(std::move(reserved)),
      results_(graph.nodes().size()) {}

void OnnxBuilder::add_input(int node) {
  const Graph::Node& n = node_at(node);
  model_.inputs.push_back({n.name, n.shape, n.is_state ? "zeros at the beginning of a sequence" : ""});
  results_[static_cast<std::size_t>(node)] = n.name;  // a reserved name
}

void OnnxBuilder::add_layer(int node) {
  node_ = node;
  first_op_ = model_.operators.size();
  result_name_.clear();
  this->node().layer->to_onnx(*this);
  if (value_of(node).empty()) refuse_layer("its layer has written no result");
  if (value_of(node) == result_name_) model_.values.push_back({result_name_, this->node().shape});
}

const Graph::Node& OnnxBuilder::node_at(int index) const { return graph_.nodes().at(static_cast<std::size_t>(index)); }
const std::string& OnnxBuilder::value_of(int index) const { return results_.at(static_cast<std::size_t>(index)); }
const Graph::Node& OnnxBuilder::node() const { return node_at(node_); }
const Graph::Node& OnnxBuilder::src_node(int i) const { return node_at(node().srcs.at(static_cast<std::size_t>(i))); }
const Shape& OnnxBuilder::src_shape(int i) const { return src_node(i).shape.shape; }
const Shape& OnnxBuilder::dst_shape() const { return node().shape.shape; }
const std::string& OnnxBuilder::src(int i) const { return value_of(node().srcs.at(static_cast<std::size_t>(i))); }

std::string OnnxBuilder::unique(const std::string& requested) {
  std::string name = requested;
  for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", requested, i);
  return name;
}

std::string OnnxBuilder::parameter(const std::string& own) {
  const std::string full = node().parameter(own);
  std::string& name = parameter_names_[full];
  if (!name.empty()) return name;
  const Parameter* p = parameters_.find(full);
  if (!p) fail("the network has no parameter '{}', but {} reads it", full, node().name);
  name = unique(full);
  model_.initializers.push_back(
      {name, onnx::integers_of(p->shape), [&all = parameters_, full] { return values(all, full); }});
  return name;
}

std::vector<float> OnnxBuilder::values(const Parameters& parameters, const std::string& name) {
  const Parameter* p = parameters.find(name);
  if (!p) fail("the network has no parameter '{}'", name);
  return parameters.get(*p);
}

std::string OnnxBuilder::scalar(float value) {
  return made_of(fmt::format("{}", value), {}, [value](const Parameters&) { return std::vector<float>{value}; });
}

std::string OnnxBuilder::integers(std::vector<std::int64_t> values) {
  const auto count = std::ssize(values);
  model_.initializers.push_back({unique(node().name + "/integers"), {count}, std::move(values)});
  return model_.initializers.back().name;
}

std::string OnnxBuilder::made_of(const std::string& label, const Shape& shape,
                                 const std::function<std::vector<float>(const Parameters&)>& make) {
  model_.initializers.push_back(
      {unique(node().name + "/" + label), onnx::integers_of(shape), [&all = parameters_, make] { return make(all); }});
  return model_.initializers.back().name;
}

std::string OnnxBuilder::rows_of(const Shape& last) {
  std::vector<std::int64_t> dims{-1};
  for (const auto d : last) dims.push_back(d);
  return integers(std::move(dims));
}

std::string OnnxBuilder::op(const std::string& type, const std::vector<std::string>& inputs,
                            std::vector<onnx::Attribute> attributes) {
  return ops(type, inputs, std::move(attributes), 1).front();
}

std::vector<std::string> OnnxBuilder::ops(const std::string& type, const std::vector<std::string>& inputs,
                                          std::vector<onnx::Attribute> attributes, int results) {
  std::vector<std::string> names;
  for (int i = 0; i < results; ++i) names.push_back(unique(fmt::format("{}/{}", node().name, type)));
  model_.operators.push_back({names.front(), type, inputs, names, std::move(attributes)});
  return names;
}

void OnnxBuilder::set_dst(const std::string& value) {
  results_[static_cast<std::size_t>(node_)] = value;
  const std::span own(model_.operators.begin() + static_cast<std::ptrdiff_t>(first_op_), model_.operators.end());
  const auto makes = [&](const onnx::Operator& op) { return std::ranges::count(op.outputs, value) > 0; };
  const auto maker = std::ranges::find_if(own, makes);
  if (maker == own.end()) return;
  result_name_ = unique(node().name);
  for (onnx::Operator& op : own) {
    std::ranges::replace(op.inputs, value, result_name_);
    std::ranges::replace(op.outputs, value, result_name_);
  }
  for (auto& [state, next] : next_states_)
    if (next == value) next = result_name_;
  maker->name = results_[static_cast<std::size_t>(node_)] = result_name_;
}

void OnnxBuilder::set_next_state(int i, const std::string& value) {
  KEELSON_EXPECT(src_node(i).is_state);
  next_states_[node().srcs[static_cast<std::size_t>(i)]] = value;
}

void OnnxBuilder::refuse_layer(std::string_view why) const {
  refuse("{} ({}) cannot be exported to ONNX: {}", node().name, node().layer->kind(), why);
}

}  // namespace keelson
