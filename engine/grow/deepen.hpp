#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/channel_maps.hpp"
#include "engine/graph/topology.hpp"

/// Networks with more layers. A layer with weights can be followed by copies of itself: layers of the same kind that
/// read what it makes and make values of the same shape. Copy 2 of "conv3" consists of nodes whose names begin with
/// "conv3+2", and by these names a checkpoint's topology says how many copies there are.
namespace keelson {

/// By the name of a layer: how many copies follow it.
using LayerCopies = std::map<std::string, std::int64_t>;

/// What a copy consists of.
enum class CopyForm : std::uint8_t {
  /// "conv3+1", a layer, and its activation "conv3+1.act", behind a ReLU without batch normalization. With the identity
  /// as weights the copy changes nothing, since relu(relu(x)) = relu(x) (Net2Net: T. Chen, I. Goodfellow, J. Shlens,
  /// arXiv 1511.05641).
  identity,
  /// x + out(act(norm(in(x)))): "conv3+1.in", "conv3+1.norm" if the layer's values are normalized, "conv3+1.act",
  /// "conv3+1.out" and the sum "conv3+1". With zeros as weights of `out` the copy changes nothing, whatever the
  /// activation is, and whatever statistics a normalization takes.
  residual
};

/// A layer that copies can follow.
struct RepeatableLayer {
  std::string name;                    ///< of the node
  CopyForm form = CopyForm::residual;  ///< of its copies
};

/// The layers that copies can follow, in the graph's order, without the copies that there are: convolutions and dense
/// layers with weights of their own that have an activation behind them, or else in front. Copies come behind the
/// activation, or else behind the layer. Not layers whose units are fixed (UnitGroup::fixed), as those of an output.
std::vector<RepeatableLayer> repeatable_layers(const Graph& graph);

/// How many copies follow each layer of a network that has this topology.
LayerCopies copies_of(const Topology& topology);
/// The layer that the node `name` belongs to a copy of: "conv3" for "conv3+2.act"; else `name` itself.
std::string copied_layer(const std::string& name);

/// The network with so many copies behind its layers; the copies that `graph` has and that are not in `copies` are left
/// out. Throws InputError for a layer that repeatable_layers() does not have.
Graph with_copies(const Graph& graph, const LayerCopies& copies);

/// with_copies() and with_widths(): the network of a checkpoint's topology, made from the network as it was before
/// layers and units were added or removed. Throws as these.
Graph with_topology(const Graph& graph, const Topology& topology);

/// The network with one more copy behind each of these layers, which computes what `graph` computes, in training as in
/// evaluation, up to the rounding of a convolution's sums. New weights are the identity; of CopyForm::residual, zeros
/// behind weights that begin as the layer's Init says. Moments of new parameters are zero. Throws as with_copies().
NetworkChange deepen(const Graph& graph, const std::vector<std::string>& layers);

/// The parameters of the last copy of a layer of which the gradients say what the copy can gain: "conv3+1/weights" or
/// "conv3+1.out/weights". Throws Error if the graph has no copy of the layer.
std::string gaining_weights(const Graph& graph, const std::string& layer);

}  // namespace keelson
