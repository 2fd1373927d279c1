#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_set>
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
    /// Parameters that belong to other nodes, by this node's name for them: "weights" -> "embedding/weights".
    std::map<std::string, std::string> shared = {};
    bool is_state = false;  ///< an input that recurrent nodes replace (Graph::state)

    std::string parameter(const std::string& own) const {
      const auto found = shared.find(own);
      return found == shared.end() ? name + "/" + own : found->second;
    }
  };

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph(const Graph&) = delete;

  static constexpr std::size_t most_nodes = 10000;

  /// A value that the caller fills each step. `sample` is the shape of one sample, without the batch: {4, 128, 128,
  /// 128}.
  Var input(const std::string& name, const Shape& sample, DType dtype = DType::f32);
  /// What a recurrent layer remembers from one step to the next, per sample: an input that begins as zero and that the
  /// layer gives its next value, which Plan::carry_states() makes the input of the following step. f32.
  Var state(const std::string& name, const Shape& sample);
  /// Appends a node; `name` empty: kind and number ("conv3"). Refuses (InputError) srcs that do not fit, naming the
  /// node, and more than most_nodes of them.
  /// `shared`: parameters that are those of other nodes (Node::shared); refused where their shapes differ.
  Var add(std::shared_ptr<const Layer> layer, const std::vector<Var>& srcs, std::string name = "",
          std::map<std::string, std::string> shared = {});

  /// Names a value that the caller reads after forward.
  void set_output(const std::string& name, Var v) { outputs_.push_back({name, v.node}); }
  /// The scalar that training minimises; made by loss().
  void set_loss(Var v) { loss_ = v.node; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::pair<std::string, int>>& outputs() const { return outputs_; }
  int loss() const { return loss_; }

  /// All parameters, each once, in node order.
  std::vector<ParameterSpec> parameters() const;
  std::int64_t parameter_count() const;  ///< elements of those that are trained
  /// One line per node: name, kind, shape, parameters.
  std::string summary() const;

 private:
  void check_shared(const Node& n, const std::vector<ParameterSpec>& specs) const;

  std::vector<Node> nodes_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<std::string, int>> outputs_;
  int loss_ = -1;
};

}  // namespace keelson
