#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/init.hpp"
#include "engine/graph/parameter_map.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson {

class ForwardBuilder;
class BackwardBuilder;

/// Shape of a value for a batch of one sample. Dim `batch_axis` is multiplied by the batch size: 0 nearly always, with
/// an extent above 1 where one sample makes several rows (CosmoFlow's paper network: 64). -1: the value does not grow
/// with the batch (a loss).
struct ValueShape {
  Shape shape;
  DType dtype = DType::f32;
  int batch_axis = 0;
  Shape at_batch(std::int64_t batch) const {
    Shape s = shape;
    if (batch_axis >= 0) s[batch_axis] *= batch;
    return s;
  }
  std::int64_t rows_per_sample() const { return batch_axis >= 0 ? shape[batch_axis] : 1; }
};

/// What moves an array of a node.
enum class ParameterKind : std::uint8_t {
  trained,    ///< the optimizer
  statistic,  ///< calls of the node itself, from values that are the same on all ranks; no gradient, no optimizer state
};

/// An array of a node that lives from step to step and is stored in checkpoints.
struct ParameterSpec {
  std::string name;  ///< "weights", "bias"; in Graph::parameters() with the node's name in front: "conv1/weights"
  Shape shape;       ///< plain: (O, I, kD, kH, kW), (out, in), (O)
  Init init;
  ParameterKind kind = ParameterKind::trained;
};

/// What a layer is asked when channels of the network go or come. A channel is an index of dimension 1: of (N, C, D, H,
/// W) and of (N, features) alike.
struct ChannelChange {
  std::span<const ValueShape> srcs;        ///< the layer's sources in the old network
  std::span<const IndexMap> src_channels;  ///< of each source, the old channel of each new one; no value: unchanged
  IndexMap dst_channels;                   ///< what the caller gave for this node; no value: nothing

  /// Whether anything changes at this node.
  bool any() const;
  /// The map that all sources have. Throws InputError where they differ.
  const IndexMap& src() const;
  /// The result's map of a layer that has the channels of its sources and none of its own: src(). Throws InputError
  /// where the caller gave channels for the node.
  const IndexMap& passed_on() const;
};

/// A layer's answer.
struct ChannelMaps {
  IndexMap dst;  ///< of the result
  /// Per dimension, by the layer's own names ("weights"); parameters that are not listed stay as they were.
  std::map<std::string, std::vector<IndexMap>> parameters;
};

/// Emits the calls of a node's backward pass; captured state is the forward pass' primitive and buffers.
using BackwardFn = std::function<void(BackwardBuilder&)>;

class Layer;

/// A way to make one node of two: returns the layer that does the work of `first` and then of `reader`, the only layer
/// that reads the result of `first`. Null where the rule does not apply. The graph knows no rules; layers have them
/// (Layer::fusion_rules).
using FusionRule = std::function<std::shared_ptr<const Layer>(const Layer& first, const Layer& reader, bool training)>;

/// What a node computes. A layer knows shapes, parameters and which primitives in which order; never backends.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string kind() const = 0;  ///< "conv", "max_pool": names nodes
  /// Shape of the result for a batch of one; refuses (InputError) srcs that do not fit.
  virtual ValueShape infer(std::span<const ValueShape> srcs) const = 0;
  virtual std::vector<ParameterSpec> parameters(std::span<const ValueShape>) const { return {}; }
  /// Makes primitives and emits the forward calls; returns how to emit the backward ones (null: no gradient flows).
  virtual BackwardFn plan(ForwardBuilder& p) const = 0;

  /// How channels of the result and of the parameters follow when channels of the sources go or come, or when the
  /// caller gives others for the result (channel_maps()). By default any change is refused (InputError).
  virtual ChannelMaps map_channels(const ChannelChange& change) const;

  /// Whether the result is of the dtype that the sources have (element-wise work, pooling, regrouping).
  virtual bool keeps_type() const { return false; }
  /// What this layer can be fused with. The first rule that applies is taken.
  virtual std::span<const FusionRule> fusion_rules() const { return {}; }
};

/// The rule of a member function of First for readers of the type Reader.
template <class First, class Reader>
FusionRule fusion_rule(std::shared_ptr<const Layer> (First::*fuse)(const Reader& reader, bool training) const) {
  return [fuse](const Layer& first, const Layer& reader, bool training) -> std::shared_ptr<const Layer> {
    const auto* typed = dynamic_cast<const Reader*>(&reader);
    return typed ? (dynamic_cast<const First&>(first).*fuse)(*typed, training) : nullptr;
  };
}

}  // namespace keelson
