#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"

namespace keelson {

/// What a network consists of: its nodes' names, kinds, sources, shapes and parameters, without what only the layers
/// know (strides, rates). A checkpoint stores the text of it. A program that makes networks of several widths makes the
/// same one again from widths().
struct Topology {
  struct Node {
    std::string name, kind;                          ///< Layer::kind(); "state" for a recurrent state
    std::vector<std::string> srcs;                   ///< names
    Shape shape;                                     ///< of the result, for a batch of one sample
    std::string dtype;                               ///< of the result: "f32"
    std::map<std::string, Shape> parameters = {};    ///< "weights" -> (O, I, ...)
    std::map<std::string, std::string> shared = {};  ///< of them, those of other nodes (Graph::Node::shared)
    friend bool operator==(const Node&, const Node&) = default;
  };

  std::vector<Node> nodes;                     ///< in the graph's order
  std::map<std::string, std::string> outputs;  ///< name -> node
  std::string loss;                            ///< node; empty: none

  Topology() = default;
  explicit Topology(const Graph& graph);
  /// The reverse of to_text(). Throws InputError for another text.
  static Topology parse(const std::string& text);

  /// JSON with one line per node. Equal topologies have equal texts.
  std::string to_text() const;
  /// Channels or features (dimension 1) of each node that has parameters: "conv1" -> 32.
  std::map<std::string, std::int64_t> widths() const;
  /// Each node's line by "node <name>", outputs, loss and order: for comparisons that name what differs.
  std::map<std::string, std::string> lines() const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// "node conv2 is {...}, expected {...}": the first difference of `found` from `expected`. Empty: none.
std::string difference(const Topology& found, const Topology& expected);

}  // namespace keelson
