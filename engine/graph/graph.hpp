#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/graph/layer.hpp"

namespace keelson {

class Graph;

/// A value of a graph: the result of one node. Layer functions take and return values (engine/layers/layers.hpp).
struct Var {
  Graph* graph = nullptr;           ///< the graph of the value; must outlive the Var
  int node = -1;                    ///< index in Graph::nodes()
  const ValueShape& shape() const;  ///< shape for a batch of one sample
};

/// A static network: nodes in topological order. Function calls build the graph at run time, and Plan compiles it. A
/// graph holds no values and no parameters.
class Graph {
 public:
  /// A layer with its sources, or an input.
  struct Node {
    std::string name;                    ///< unique; parameters are "<name>/weights"
    std::shared_ptr<const Layer> layer;  ///< what the node computes
    std::vector<int> srcs;               ///< nodes whose results the node reads, in the layer's order; empty: an input
    ValueShape shape;                    ///< shape of the result
    /// Parameters that belong to other nodes, by this node's name for them: "weights" -> "embedding/weights".
    std::map<std::string, std::string> shared = {};
    bool is_state = false;  ///< a recurrent state (Graph::state)
    /// In plans alone: a value that another rank makes (stage_parts()), without sources.
    bool is_received = false;
    bool is_input() const { return srcs.empty() && !is_received; }  ///< the caller writes the value, or it is a state

    /// The name in Parameters of the parameter that the layer calls `own`: "weights" -> "conv1/weights".
    std::string parameter(const std::string& own) const {
      const auto found = shared.find(own);
      return found == shared.end() ? name + "/" + own : found->second;
    }
  };

  Graph() = default;
  /// Takes over the nodes of the other graph. A Var of the other graph is no longer valid.
  Graph(Graph&&) = default;
  /// Replaces the nodes by those of the other graph. A Var of either graph is no longer valid.
  Graph& operator=(Graph&&) = default;
  Graph(const Graph&) = delete;

  static constexpr std::size_t most_nodes = 10000;  ///< limit of add()

  /// A value that the caller writes before each step (Executor::input). `sample` is the shape of one sample, without
  /// the batch: {4, 128, 128, 128}.
  Var input(const std::string& name, const Shape& sample, DType dtype = DType::f32);
  /// A value per sample that a recurrent layer keeps from one step to the next, f32 and zero at first. The layer
  /// computes the next value of the state, and Executor::carry_states() makes that value the input of the following
  /// step.
  Var state(const std::string& name, const Shape& sample);
  /// Appends a node and returns its result. With an empty `name` the node is called by its kind and a number ("conv3").
  /// `shared`: parameters that belong to other nodes (Node::shared). Throws InputError, naming the node, for sources
  /// that do not fit the layer, for a name that another node has, for shared parameters of another shape, and for more
  /// than most_nodes nodes.
  Var add(std::shared_ptr<const Layer> layer, const std::vector<Var>& srcs, std::string name = "",
          std::map<std::string, std::string> shared = {});

  /// Names a value that the caller reads after forward.
  void set_output(const std::string& name, Var v) { outputs_.push_back({name, v.node}); }
  /// Appends the scalar that training minimises, as add(). Throws InputError if the graph has a loss already.
  Var add_loss(std::shared_ptr<const Layer> layer, const std::vector<Var>& srcs, std::string name,
               std::map<std::string, std::string> shared = {});
  /// Makes a value the loss, in the copy of a graph.
  void set_loss(Var v) { loss_ = v.node; }

  /// All nodes, each after its sources.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// The shapes of the values that the node reads.
  std::vector<ValueShape> source_shapes(const Node& n) const;
  /// Name and node of each output, in the order of the set_output() calls.
  const std::vector<std::pair<std::string, int>>& outputs() const { return outputs_; }
  int loss() const { return loss_; }  ///< the node of the loss; -1: none was set

  /// All parameters and statistics, each once, in node order, with the node's name as prefix: "conv1/weights".
  std::vector<ParameterSpec> parameters() const;
  std::int64_t parameter_count() const;  ///< elements of all parameters that are trained
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
