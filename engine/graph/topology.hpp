#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"

namespace keelson {

/// The structure of a network: its nodes' names, kinds, sources, shapes and parameters, without the settings that only
/// the layers know (strides, rates). A checkpoint stores the topology as text. A program that makes networks of several
/// widths can make the network of a checkpoint again from widths().
struct Topology {
  /// A node of the network.
  struct Node {
    std::string name, kind;         ///< unique in the network; Layer::kind(), or "state" for a recurrent state
    std::vector<std::string> srcs;  ///< names of the nodes that the node reads, in order
    Shape shape;                    ///< shape of the result, for a batch of one sample
    std::string dtype;              ///< dtype of the result: "f32"
    std::map<std::string, Shape> parameters = {};    ///< "weights" -> (O, I, ...)
    std::map<std::string, std::string> shared = {};  ///< parameters that belong to other nodes (Graph::Node::shared)
    friend bool operator==(const Node&, const Node&) = default;
  };

  std::vector<Node> nodes;                     ///< in the graph's order
  std::map<std::string, std::string> outputs;  ///< name of the output -> name of the node
  std::string loss;                            ///< name of the loss's node; empty: no loss

  Topology() = default;
  /// The topology of this graph.
  explicit Topology(const Graph& graph);
  /// The reverse of to_text(). Throws InputError for a text that does not describe a topology.
  static Topology parse(const std::string& text);

  /// JSON with one line per node. Equal topologies have equal texts.
  std::string to_text() const;
  /// Number of channels or features (extent of dimension 1) of each node that has parameters: "conv1" -> 32.
  std::map<std::string, std::int64_t> widths() const;
  /// The topology in parts, by name: each node's line under "node conv1", then outputs, loss and order. For comparisons
  /// that name the differing part.
  std::map<std::string, std::string> lines() const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// The first difference of `found` from `expected`: "node conv2 is {...}, expected {...}". Empty for equal topologies.
std::string difference(const Topology& found, const Topology& expected);

}  // namespace keelson
