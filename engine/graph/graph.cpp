#include "engine/graph/graph.hpp"

#include <algorithm>

namespace keelson {

namespace {

/// A value that the caller fills, or a recurrent state. Plan itself plans it.
class InputLayer : public Layer {
 public:
  InputLayer(ValueShape shape, bool is_state) : shape_(shape), is_state_(is_state) {}
  std::string kind() const override { return "input"; }
  ValueShape infer(std::span<const ValueShape>) const override { return shape_; }
  BackwardFn plan(ForwardBuilder&) const override { return nullptr; }
  void to_onnx(OnnxBuilder&) const override {}  // export_onnx() writes inputs itself
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape>) const override {
    if (!is_state_ || shape_.shape.rank() < 3) return {};
    ChannelTie units{shape_.shape[2], {TiedPlace::of_dst()}};
    units.places[0].dim = 2;
    return {units};
  }

 private:
  ValueShape shape_;
  bool is_state_;
};

}  // namespace

const ValueShape& Var::shape() const { return graph->nodes()[node].shape; }

namespace {

ValueShape shape_of_samples(const Shape& sample, DType dtype) {
  Shape shape{1};
  for (auto d : sample) shape.push_back(d);
  return {shape, dtype, 0};
}

}  // namespace

Var Graph::input(const std::string& name, const Shape& sample, DType dtype) {
  return add(std::make_shared<InputLayer>(shape_of_samples(sample, dtype), false), {}, name);
}

Var Graph::state(const std::string& name, const Shape& sample) {
  const Var v = add(std::make_shared<InputLayer>(shape_of_samples(sample, DType::f32), true), {}, name);
  nodes_.back().is_state = true;
  return v;
}

void Graph::check_shared(const Node& n, const std::vector<ParameterSpec>& specs) const {
  if (n.shared.empty()) return;
  const auto all = parameters();
  for (const auto& [own, other] : n.shared) {
    const auto same_name = [&](const std::string& wanted) {
      return [&wanted](const ParameterSpec& p) { return p.name == wanted; };
    };
    const auto mine = std::find_if(specs.begin(), specs.end(), same_name(own));
    const auto theirs = std::find_if(all.begin(), all.end(), same_name(other));
    if (theirs == all.end()) refuse("there is no parameter '{}' to share", other);
    KEELSON_EXPECT(mine != specs.end());
    if (!(mine->shape == theirs->shape))
      refuse("its {} are {}, but it shares those of {}, which are {}", own, to_string(mine->shape), other,
             to_string(theirs->shape));
  }
}

Var Graph::add(std::shared_ptr<const Layer> layer, const std::vector<Var>& srcs, std::string name,
               std::map<std::string, std::string> shared) {
  Node n;
  n.shared = std::move(shared);
  const std::string kind = layer->kind();
  if (nodes_.size() == most_nodes)
    refuse("the network has more than {} nodes (layers, activations ...), the most that a plan can have: use fewer",
           most_nodes);
  const auto named = [&](const std::string& candidate) { return names_.contains(candidate); };
  for (int i = 1; name.empty(); ++i)
    if (const std::string candidate = fmt::format("{}{}", kind, i); !named(candidate)) name = candidate;
  if (named(name)) refuse("two nodes of the network are called '{}': give each its own name", name);
  std::vector<ValueShape> shapes;
  for (const Var& v : srcs) {
    KEELSON_EXPECT(v.graph == this);
    n.srcs.push_back(v.node);
    shapes.push_back(v.shape());
  }
  try {
    n.shape = layer->infer(shapes);
    check_shared(n, layer->parameters(shapes));
  } catch (const InputError& e) {
    refuse("{}: {}", name, e.what());
  }
  names_.insert(name);
  n.name = std::move(name);
  n.layer = std::move(layer);
  nodes_.push_back(std::move(n));
  return {this, static_cast<int>(nodes_.size()) - 1};
}

Var Graph::add_loss(std::shared_ptr<const Layer> layer, const std::vector<Var>& srcs, std::string name,
                    std::map<std::string, std::string> shared) {
  if (loss_ >= 0)
    refuse(
        "the network has a loss already, {} ({}); expected one loss. Leave this one ({}) out, or make another graph "
        "for it",
        nodes_[static_cast<std::size_t>(loss_)].name, nodes_[static_cast<std::size_t>(loss_)].layer->kind(),
        layer->kind());
  const Var v = add(std::move(layer), srcs, std::move(name), std::move(shared));
  loss_ = v.node;
  return v;
}

std::vector<ValueShape> Graph::source_shapes(const Node& n) const {
  std::vector<ValueShape> shapes;
  for (const int s : n.srcs) shapes.push_back(nodes_[s].shape);
  return shapes;
}

std::vector<ParameterSpec> Graph::parameters() const {
  std::vector<ParameterSpec> all;
  for (const Node& n : nodes_) {
    for (ParameterSpec p : n.layer->parameters(source_shapes(n))) {
      if (n.shared.contains(p.name)) continue;
      p.name = n.parameter(p.name);
      all.push_back(std::move(p));
    }
  }
  for (const Node& n : nodes_)
    for (const auto& [own, other] : n.shared)
      for (ParameterSpec& p : all)
        if (p.name == other) p.product_inputs = 0;
  return all;
}

std::int64_t Graph::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& p : parameters())
    if (p.kind == ParameterKind::trained) count += p.shape.elements();
  return count;
}

std::string Graph::summary() const {
  std::string text;
  const auto specs = parameters();
  for (const Node& n : nodes_) {
    std::int64_t count = 0;
    for (const auto& p : specs)
      if (p.kind == ParameterKind::trained && p.name.starts_with(n.name + "/")) count += p.shape.elements();
    text += fmt::format("{:<16} {:<14} {:<24}", n.name, n.layer->kind(), to_string(n.shape.shape));
    text += count > 0 ? fmt::format(" {:>12}\n", count) : "\n";
  }
  return text + fmt::format("{} parameters\n", parameter_count());
}

}  // namespace keelson
