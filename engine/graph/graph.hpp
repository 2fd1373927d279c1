#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/layer.hpp"

namespace keelson {

class Graph;

/// A value of a graph: what one node makes. Handed from layer function to layer function (engine/layers/layers.hpp).
struct Var {
  Graph* graph = nullptr;
  int node = -1;
  const ValueShape& shape() const;
};

/// A static network: nodes in topological order, built by function calls at run time, compiled by Plan. Holds no data.
class Graph {
 public:
  struct Node {
    std::string name;  ///< unique; parameters are "<name>/weights"
    std::shared_ptr<const Layer> layer;
    std::vector<int> srcs;
    ValueShape shape;
  };

  Graph() = default;
  Graph(Graph&&) = default;
  Graph(const Graph&) = delete;

  /// A value that the caller fills each step. `sample` is the shape of one sample, without the batch: {4, 128, 128,
  /// 128}.
  Var input(const std::string& name, const Shape& sample, DType dtype = DType::f32);
  /// Appends a node; `name` empty: kind and number ("conv3"). Refuses (InputError) srcs that do not fit, naming the
  /// node.
  Var add(std::shared_ptr<const Layer> layer, const std::vector<Var>& srcs, std::string name = "");

  /// Names a value that the caller reads after forward.
  void set_output(const std::string& name, Var v) { outputs_.push_back({name, v.node}); }
  /// The scalar that training minimises; made by loss().
  void set_loss(Var v) { loss_ = v.node; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::pair<std::string, int>>& outputs() const { return outputs_; }
  int loss() const { return loss_; }

  /// All parameters, in node order.
  std::vector<ParameterSpec> parameters() const;
  std::int64_t parameter_count() const;
  /// One line per node: name, kind, shape, parameters.
  std::string summary() const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, int>> outputs_;
  int loss_ = -1;
};

}  // namespace keelson
