#pragma once

#include <map>
#include <string>

#include "engine/graph/parameters.hpp"
#include "engine/plan/fuse.hpp"
#include "engine/plan/parts.hpp"
#include "engine/plan/sharing.hpp"

namespace keelson {

/// The nodes of one rank along the axis space, which computes a part of each sample.
struct SpatialParts {
  /// In topological order: the nodes after fusion, whose layers and shapes are those of this rank's parts, and the
  /// exchanges of rows between them (row_exchange_layer()).
  std::vector<Graph::Node> nodes;
  std::vector<int> index;  ///< per node of the graph: the index in `nodes`; without training, of the whole values of
                           ///< outputs; -1: the value is none of this stage's results
  /// Rows of the inputs that this rank reads, by input: those of its part, with the rows of other parts that the first
  /// layers read. Rows beyond the edges are zeros. Inputs that are not listed are read as wholes.
  std::map<std::string, Rows> inputs;
  std::vector<Sharing> sharing;                                 ///< per node: what the ranks divide
  ProcessGrid::Axis channel_axis = ProcessGrid::Axis::channel;  ///< whose ranks share channels (channel_parts())
  /// Parts of parameters, by name, that this rank has along that axis, and parts of no rows for those of other stages
  /// (stage_parts()).
  std::map<std::string, Parameter::Part> parameters;
  std::vector<int> sent;              ///< nodes that send values to the next stage, where backward passes begin
  std::vector<int> gradients_wanted;  ///< received values whose gradient the stage before waits for
  bool alike = true;                  ///< the parts of all ranks have the same shapes and layers
  std::string bounds;  ///< where all ranks' parts begin, for a hash: ranks that agree exchange what they expect
};

/// The nodes of this rank. On a grid with one rank along the axis space, and without a grid, the nodes after fusion.
/// Else this function cuts images and volumes, and what layers make of them, into parts along the first spatial
/// dimension, one for each rank along the axis space. Layers with a rule (Layer::part) compute a part of their result
/// from rows of their sources, and rows that other ranks hold are exchanged. Where a layer has fewer rows than there
/// are ranks, some ranks own none of them, and compute a row of a neighbour a second time. Where a layer needs whole
/// sources, or has one row, all ranks gather the whole values, and compute the same from there on. So they do before
/// the first of channel_layers(), of which channel_parts() then gives each rank a part. In training, losses of pixels
/// are sums of the ranks' terms (Layer::term). A row of a result belongs to the rank that owns the middle of the rows
/// that it reads. Throws InputError, naming the node, for a layer without a rule whose result has spatial dimensions.
SpatialParts spatial_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options);

/// How all ranks along the axis space compute a node.
struct NodeParts {
  int dim = -1;                            ///< the dimension that counts rows; -1: the value has none
  ValueParts value;                        ///< of the result
  std::vector<std::vector<Rows>> sources;  ///< per source, per rank: rows that the layer reads
  /// Per rank: computes the rank's part; null: the node's own layer.
  std::vector<std::shared_ptr<const Layer>> layers;
  std::vector<std::vector<std::int64_t>> paddings;  ///< per rank: LayerPart::padding
  std::int64_t stride = 0;  ///< rows of the inputs to a row of the result; 0: the value is whole
  bool is_term = false;     ///< each rank computes a term, from parts
  bool on_parts() const { return value.is_cut() || is_term; }  ///< whether the layer works on parts
};

/// Per node: how `ranks` ranks share it if samples are cut along dimension `dim`: 2, the first spatial one, as
/// spatial_parts() does, or a later one. From the node `whole_from` on, the first of channel_layers(), values are
/// whole; empty: none is whole for this reason. For estimates, which need no plan.
std::vector<NodeParts> sample_parts(const FusedNodes& fused, bool training, int ranks, int dim,
                                    const std::string& whole_from = "");

/// SpatialParts::inputs of a graph that is compiled with these options; empty where the ranks have whole samples.
std::map<std::string, Rows> input_rows(const Graph& graph, const PlanOptions& options);

}  // namespace keelson
