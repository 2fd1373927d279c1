#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/channel_ties.hpp"
#include "engine/graph/init.hpp"
#include "engine/tensor/rows.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson {

class ForwardBuilder;
class BackwardBuilder;
class OnnxBuilder;

/// Shape of a value for a batch of one sample. The extent of dimension `batch_axis` is multiplied by the batch size.
struct ValueShape {
  Shape shape;               ///< for one sample
  DType dtype = DType::f32;  ///< type of the elements
  /// The dimension that grows with the batch, nearly always 0. Its extent is above 1 if one sample makes several rows
  /// (CosmoFlow's paper network: 64). -1: the value does not grow with the batch (a loss).
  int batch_axis = 0;
  /// The shape for `batch` samples.
  Shape at_batch(std::int64_t batch) const {
    Shape s = shape;
    if (batch_axis >= 0) s[batch_axis] *= batch;
    return s;
  }
  /// Extent of the batch dimension for one sample; 1 if the value does not grow with the batch.
  std::int64_t rows_per_sample() const { return batch_axis >= 0 ? shape[batch_axis] : 1; }
};

/// Says what changes an array of a node from step to step.
enum class ParameterKind : std::uint8_t {
  trained,  ///< the optimizer, by the array's gradient
  /// Calls of the node itself, from values that are the same on all ranks. The array has no gradient and no optimizer
  /// state (running statistics of a batch normalization).
  statistic,
};

/// An array of a node that lives from step to step and is stored in checkpoints.
struct ParameterSpec {
  std::string name;  ///< "weights", "bias"; in Graph::parameters() with the node's name as prefix: "conv1/weights"
  Shape shape;       ///< plain: (O, I, kD, kH, kW), (out, in), (O)
  Init init;         ///< initial values
  ParameterKind kind = ParameterKind::trained;  ///< trained or statistic
  /// Of the weights of a dense layer or of a convolution in one group: the length of the vectors that the weights
  /// multiply, i.e. the elements of a window of the source, and one more for the 1 of a bias. 0: of other parameters,
  /// and in Graph::parameters() of weights that several nodes have.
  std::int64_t product_inputs = 0;
};

/// Appends the calls of a node's backward pass. The function keeps the primitive and the buffers of the forward pass.
using BackwardFn = std::function<void(BackwardBuilder&)>;

class Layer;

/// The position in the network of two layers that may be fused.
struct FusionPlace {
  bool training;                     ///< as in PlanOptions
  std::int64_t batch;                ///< samples of a pass
  std::span<const ValueShape> srcs;  ///< sources of the first layer
  ValueShape between;                ///< the value that the first layer makes and the second reads
};

/// A rule that fuses two nodes into one: returns a layer that does the work of `first` and then of `reader`, which is
/// the only layer that reads the result of `first`. Null if the rule does not apply. Layers have the rules
/// (Layer::fusion_rules). The new layer finds the parameters of `reader` by their names in `reader`; `first` must not
/// have parameters of these names.
using FusionRule =
    std::function<std::shared_ptr<const Layer>(const Layer& first, const Layer& reader, const FusionPlace& at)>;

/// What a layer needs to compute some rows of its result (Layer::part).
struct LayerPart {
  /// The rows of each source that are read. Rows beyond the edges of a source are zeros, so only layers to which zeros
  /// add nothing, as convolutions, may read them.
  Rows reads;
  /// Computes these rows of the result, and no others, from sources that consist of the rows `reads`. Null: the layer
  /// itself does so.
  std::shared_ptr<const Layer> layer;
  /// Of `layer`: paddings along the rows. Parts of equal size with equal paddings are computed alike.
  std::vector<std::int64_t> padding = {};
  /// Of a term, per source: the dimension that counts its rows.
  std::vector<int> dims = {};
};

/// How a layer computes some channels of its result, where a channel is an index of dimension 1 (Layer::channel_part).
struct ChannelPart {
  bool reads_all = true;  ///< reads all channels of its sources; else the same channels of each as it makes
  /// Computes these channels of the result, and no others. Null: the layer itself does so.
  std::shared_ptr<const Layer> layer;
  /// The parameters, by the layer's own names ("weights"), and the dimension that counts the channels of the result.
  std::map<std::string, int> parameters = {};
};

/// How a layer computes its term of a sum over the channels of source 0 (Layer::channel_term).
struct ChannelTerm {
  /// Makes a (rows, n) value from the channels of source 0 that one rank has. All ranks gather these values side by
  /// side, in the order of the ranks: the last source of `layer`. No gradient flows through them. Null: none needed.
  std::shared_ptr<const Layer> sums;
  /// Computes the term from the channels of source 0, and from the other sources as wholes.
  std::shared_ptr<const Layer> layer;
};

/// A layer whose result has the shape of its source (Layer::repeated).
struct RepeatedLayer {
  std::shared_ptr<const Layer> layer;  ///< with a parameter "weights", and maybe "bias"
  /// Makes the weights, in plain order, with which the result is the source where the bias is zero; empty: no weights
  /// do so.
  std::function<std::vector<float>()> identity = {};
};

/// A source of a layer that holds whole numbers: classes, or rows of a table (Layer::whole_numbers).
struct WholeNumbers {
  int src = 0;                        ///< of the layer
  std::int64_t count = 0;             ///< numbers from 0 to count - 1 have a meaning
  bool minus_one_is_ignored = false;  ///< -1 has a meaning, too: it is left out
  const char* noun = "class";         ///< what a number is, for messages
};

/// What a node computes. A layer knows its shapes, its parameters, and which primitives run in which order. A layer
/// does not know the backends.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string kind() const = 0;  ///< "conv", "max_pool": part of default node names and of reports
  /// Shape of the result for a batch of one sample. Throws InputError for sources that do not fit.
  virtual ValueShape infer(std::span<const ValueShape> srcs) const = 0;
  /// The layer's parameters and statistics for sources of these shapes, by the layer's own names ("weights").
  virtual std::vector<ParameterSpec> parameters(std::span<const ValueShape>) const { return {}; }
  /// Makes the primitives and appends the forward calls. Returns the function that appends the backward calls; null if
  /// no gradient flows through the layer.
  virtual BackwardFn plan(ForwardBuilder& p) const = 0;
  /// Writes the ONNX operators that compute what plan() does without training (engine/onnx/builder.hpp). A layer
  /// without such operators calls OnnxBuilder::refuse_layer().
  virtual void to_onnx(OnnxBuilder& b) const = 0;

  /// Which channels of the sources (of the shapes `srcs`), of the result and of the parameters belong together, so that
  /// networks can lose and gain channels (change_channels()). A channel is an index of dimension 1, both of (N, C, D,
  /// H, W) and of (N, features). Channels of a source or of the result that are in no tie must stay as they are; by
  /// default these are all.
  virtual std::vector<ChannelTie> channel_ties(std::span<const ValueShape> /*srcs*/) const { return {}; }
  /// This layer for sources that have become `now`, with other channels than `before`, and for `channels` channels of
  /// the result. Null, the default: the layer itself.
  virtual std::shared_ptr<const Layer> with_channels(std::span<const ValueShape> /*before*/,
                                                     std::span<const ValueShape> /*now*/,
                                                     std::int64_t /*channels*/) const {
    return nullptr;
  }

  /// A layer of the same kind, with weights of its own, that reads a value of the shape of this layer's result and
  /// makes a value of the same shape, so that networks become deeper (deepen()). No value, the default: there is none.
  virtual std::optional<RepeatedLayer> repeated(const ValueShape& /*value*/) const { return {}; }

  /// How the rows `rows` of the result are computed, where rows are counted along dimension `dim`, a spatial one, of
  /// the result and of the sources `srcs`, which have the same rank. No row of the result may depend on which other
  /// rows are computed with it, and the first and the last row that are read must not decrease from one row of the
  /// result to the next. No value, the default: the layer needs whole sources.
  virtual std::optional<LayerPart> part(std::span<const ValueShape> /*srcs*/, int /*dim*/, const Rows& /*rows*/) const {
    return {};
  }

  /// Of a layer whose result is a sum over the rows of its sources, as a loss is: how the term of the rows `rows` of
  /// source 0 is computed, counted along dimension `dim`. No value, the default: the layer needs whole sources.
  virtual std::optional<LayerPart> term(std::span<const ValueShape> /*srcs*/, int /*dim*/, const Rows& /*rows*/) const {
    return {};
  }

  /// How the channels `channels` of the result are computed, on one of the ranks that share a layer's channels, each of
  /// which has a part of the parameters. No value, the default: the layer computes all channels from whole sources.
  virtual std::optional<ChannelPart> channel_part(std::span<const ValueShape> /*srcs*/,
                                                  const Rows& /*channels*/) const {
    return {};
  }

  /// Of a layer whose result is a sum over the channels of source 0, as a cross entropy is: how one of `parts` ranks
  /// that share channels, which has the channels `channels`, computes its term. No value, the default: the layer needs
  /// whole sources.
  virtual std::optional<ChannelTerm> channel_term(std::span<const ValueShape> /*srcs*/, const Rows& /*channels*/,
                                                  int /*parts*/) const {
    return {};
  }

  /// Whether, in training, the result for one sample depends on the other samples of the batch (batch normalization).
  virtual bool mixes_samples() const { return false; }
  /// The source whose elements are whole numbers of a known range; none for most layers.
  virtual std::optional<WholeNumbers> whole_numbers(std::span<const ValueShape> /*srcs*/) const { return {}; }
  /// Whether the result has the dtype of the sources (element-wise work, pooling, regrouping).
  virtual bool keeps_type() const { return false; }
  /// Whether plan() reads source 0 as it is if its rows have gaps, because the source is a part of a larger value: the
  /// beginning of a concatenation's result (NodeBuilder::has_gaps()).
  virtual bool reads_gaps() const { return false; }
  /// The rules by which the layer that reads this layer's result can be fused into this layer. The first rule that
  /// applies is used.
  virtual std::span<const FusionRule> fusion_rules() const { return {}; }
};

/// Layer::channel_ties of a layer whose result has the channels of all of its sources: an activation, a pooling, a sum.
std::vector<ChannelTie> same_channels(std::span<const ValueShape> srcs);

/// The rule that calls a member function of First, for readers of type Reader.
template <class First, class Reader>
FusionRule fusion_rule(std::shared_ptr<const Layer> (First::*fuse)(const Reader& reader, const FusionPlace& at) const) {
  return [fuse](const Layer& first, const Layer& reader, const FusionPlace& at) -> std::shared_ptr<const Layer> {
    const auto* typed = dynamic_cast<const Reader*>(&reader);
    return typed ? (dynamic_cast<const First&>(first).*fuse)(*typed, at) : nullptr;
  };
}

}  // namespace keelson
