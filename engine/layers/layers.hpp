#pragma once

#include "engine/graph/graph.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/pixel_loss.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/resize.hpp"

/// Functions that build networks. Each appends one node to its argument's graph and returns the node's value; `name`
/// (default: kind and number) prefixes the node's parameters. All refuse (InputError) shapes that do not fit, naming
/// the node.
///
/// Values are logical (N, C, [D,] H, W) or (N, features).
namespace keelson {

/// Zeros around the source: so many that the extent stays ceil(extent / stride), none, or as given.
enum class Padding { same, valid, given };

/// 2-D for (N, C, H, W) values, 3-D for (N, C, D, H, W). Shapes have one entry per spatial dim; empty ones mean 1
/// (stride, dilation) or 0 (pads); a kernel given as `size` is cubic.
struct ConvOptions {
  std::int64_t filters = 1;         ///< channels of the result
  std::int64_t size = 3;            ///< of the cubic kernel
  std::int64_t stride = 1;          ///< between windows, in every spatial dim
  Padding padding = Padding::same;  ///< zeros around the source
  std::int64_t dilation = 1;        ///< distance of a kernel's elements; 1: dense
  std::int64_t groups = 1;          ///< of channels, each with filters of its own
  bool bias = true;                 ///< added to each channel
  Shape kernel = {};                ///< overrides size
  /// Zeros before and after each spatial dim; with Padding::given.
  Shape pad_begin = {}, pad_end = {};  ///< with Padding::given
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// Convolution (cross-correlation); parameters "weights" (filters, C / groups, kernel...) and "bias" (filters).
Var conv(Var x, const ConvOptions& options, const std::string& name = "");

/// 2-D and 3-D as ConvOptions.
struct TransposedConvOptions {
  std::int64_t filters = 1;  ///< channels of the result
  std::int64_t size = 3;     ///< of the cubic kernel
  std::int64_t stride = 1;   ///< distance of two source elements in the result, in every spatial dim
  /// What is cut off the result. same: so much that every extent is stride times the source's, as TensorFlow does it,
  /// where the odd element is cut off the end: out[2i + k] += x[i] w[k] for size 3 and stride 2. valid: nothing.
  Padding padding = Padding::same;
  std::int64_t dilation = 1;  ///< distance of a kernel's elements; 1: dense
  std::int64_t groups = 1;    ///< of channels, each with weights of its own
  bool bias = true;           ///< added to each channel
  Shape kernel = {};          ///< overrides size
  /// With Padding::given: elements cut off the beginning and the end of each spatial dim (an empty pad_end is
  /// pad_begin), and elements added to the end of every one, fewer than the stride. PyTorch's padding 1 and output
  /// padding 1, with size 3 and stride 2: pad_begin {1, 1}, output_padding 1; out[2i + k - 1] += x[i] w[k].
  Shape pad_begin = {}, pad_end = {};  ///< with Padding::given
  std::int64_t output_padding = 0;     ///< with Padding::given
  Init weights_init = Init::fan_in_uniform();
  Init bias_init = Init::constant(0);
};
/// Transposed convolution, also called deconvolution; parameters "weights" (C, filters / groups, kernel...) and "bias"
/// (filters).
Var transposed_conv(Var x, const TransposedConvOptions& options, const std::string& name = "");

/// Windows of a pooling. Shapes have one entry per spatial dim.
struct PoolOptions {
  std::int64_t size = 2;               ///< extent of a cubic window
  std::int64_t stride = 0;             ///< from window to window; 0: side by side
  std::int64_t padding = 0;            ///< elements at both ends, which no maximum takes
  bool count_padding = false;          ///< average only
  Shape kernel = {};                   ///< overrides size
  Shape pad_begin = {}, pad_end = {};  ///< together they override padding
};
/// The largest element of each window; NaN where a window has one.
Var max_pool(Var x, const PoolOptions& options, const std::string& name = "");
/// The mean of each window.
Var average_pool(Var x, const PoolOptions& options, const std::string& name = "");
/// Windows side by side.
inline Var max_pool(Var x, std::int64_t size, const std::string& name = "") {
  return max_pool(x, PoolOptions{.size = size}, name);
}
/// Windows side by side.
inline Var average_pool(Var x, std::int64_t size, const std::string& name = "") {
  return average_pool(x, PoolOptions{.size = size}, name);
}
/// The mean of each channel of x (N, C, spatial...): (N, C, 1...). Adds a node for each spatial dim, so that neither a
/// thread nor a sum in f32 is as long as a whole sample.
Var global_average_pool(Var x, const std::string& name = "");

/// Bilinear interpolation to a given size.
struct ResizeOptions {
  /// Extents of the result.
  std::int64_t rows = 1, columns = 1;
  ops::ResizeGrid grid = ops::ResizeGrid::half_pixel;  ///< as PyTorch; asymmetric: as TensorFlow 1
};
/// x (N, C, H, W) -> (N, C, rows, columns). A source of 1 x 1 is repeated.
Var resize(Var x, const ResizeOptions& options, const std::string& name = "");

/// A layer in which every result depends on every feature.
struct DenseOptions {
  std::int64_t features = 1;  ///< of the result
  bool bias = true;           ///< added to each feature
  /// The weights (features, in) are those of this node, an embedding of (features, in) or another dense layer: its
  /// name.
  std::string weights_of = {};
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// x (N, in) weights^T + bias: (N, features); parameters "weights" (features, in) and "bias" (features).
Var dense(Var x, const DenseOptions& options, const std::string& name = "");
/// With the other options as they are.
inline Var dense(Var x, std::int64_t features, const std::string& name = "") {
  return dense(x, DenseOptions{.features = features}, name);
}

/// Batch normalization (Ioffe, Szegedy 2015): each channel of x (N, C, ...) with mean 0 and variance 1, times scale,
/// plus shift. Training takes mean and variance of the batch, without the padding of a short one; evaluation takes the
/// running statistics, which move by `momentum` towards those of all ranks' batch in each step, as in PyTorch.
struct BatchNormOptions {
  float momentum = 0.1f;  ///< part of the new batch in the running statistics
  float epsilon = 1e-5f;  ///< added to the variance
  /// Whose samples make the mean and variance of training. 0: those of all ranks, which do not depend on their number.
  /// 1: each rank's own. Else: those of groups of so many neighbouring ranks; the last group is smaller where the
  /// number does not divide that of the ranks, and more than all ranks mean all.
  int ranks = 0;
  Init scale_init = Init::constant(1);  ///< initial scale
  Init shift_init = Init::constant(0);  ///< initial shift
};
/// Parameters "scale" and "shift" (C), statistics "running_mean" and "running_variance" (C).
Var batch_norm(Var x, const BatchNormOptions& options = {}, const std::string& name = "");

/// x / sqrt(mean of x^2 along a row + epsilon) * scale, for x (N, features); parameter "scale" (features).
Var rms_norm(Var x, float epsilon = 1e-5f, const std::string& name = "");

/// max(x, 0)
Var relu(Var x, const std::string& name = "");
/// x where x > 0, else slope x.
Var leaky_relu(Var x, float slope, const std::string& name = "");
/// Hyperbolic tangent.
Var tanh(Var x, const std::string& name = "");
/// 1 / (1 + exp(-x))
Var sigmoid(Var x, const std::string& name = "");
/// x / 2 (1 + erf(x / sqrt 2)).
Var gelu(Var x, const std::string& name = "");
/// x sigmoid(x), also called swish.
Var silu(Var x, const std::string& name = "");
/// factor x + offset
Var scale(Var x, float factor, float offset = 0, const std::string& name = "");

/// Rows of a table by number: x (N) or (N, steps) s32 -> (N * steps, features), step t of sample n in row n * steps +
/// t. Its gradient, and a training step, touch only rows that occur, unless another node shares the table, the
/// optimizer moves rows without a gradient too (momentum, Adam, weight decay), or so many ranks take part that
/// exchanging the whole is cheaper.
struct EmbeddingOptions {
  /// Rows and columns of the table.
  std::int64_t entries = 1, features = 1;
  Init weights_init = Init::uniform(0.1f);
};
/// Parameter "weights" (entries, features).
Var embedding(Var x, const EmbeddingOptions& options, const std::string& name = "");

/// Recurrent layers one above the other, over x (N * steps, features), steps as above -> (N * steps, hidden). Layer l
/// is a dense node "<name><l>_input" (all steps' input parts, with bias), and "<name><l>", whose weights (gates *
/// hidden, hidden) take h of the step before, both from the state "<name><l>_state". Formulas: ops::CellKind.
struct RecurrentOptions {
  std::int64_t hidden = 1;  ///< features of each layer's result
  int layers = 1;           ///< one above the other
  float dropout = 0;        ///< between layers, never on the way from step to step (Zaremba et al. 2014)
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// Long short-term memory.
Var lstm(Var x, const RecurrentOptions& options, const std::string& name = "");
/// Gated recurrent units.
Var gru(Var x, const RecurrentOptions& options, const std::string& name = "");

/// Only in training plans; evaluation plans pass x on.
Var dropout(Var x, float rate, const std::string& name = "");

/// The order in which elements are read out: of the logical dims (as PyTorch flattens), or with channels last (as
/// TensorFlow does).
enum class ElementOrder { logical, channels_last };
/// One sample's elements, regrouped as rows of `features`: (N, ...) -> (N * elements / features, features). features 0:
/// all, one row.
Var flatten(Var x, ElementOrder order = ElementOrder::logical, std::int64_t features = 0, const std::string& name = "");
/// Same elements in logical order, other dims of a sample: (N, ...) -> (N, sample...).
Var reshape(Var x, const Shape& sample, const std::string& name = "");

/// The sum of values of one shape.
Var add(const std::vector<Var>& xs, const std::string& name = "");
/// The sum of two values of one shape.
inline Var operator+(Var a, Var b) { return add({a, b}); }
/// Values side by side along `axis`.
Var concat(const std::vector<Var>& xs, int axis = 1, const std::string& name = "");
/// exp(x) / sum of exp(x) along `axis`.
Var softmax(Var x, int axis = 1, const std::string& name = "");

/// Compares a prediction (rows, F) with a target input (one row per sample) and makes the result the graph's loss.
Var loss(Var prediction, Var target, const ops::LossParams& params, const std::string& name = "loss");
/// The mean of squares: loss() with LossKind::mse.
inline Var mse(Var prediction, Var target) { return loss(prediction, target, {ops::LossKind::mse}); }
/// The mean of absolute values: loss() with LossKind::mae.
inline Var mae(Var prediction, Var target) { return loss(prediction, target, {ops::LossKind::mae}); }
/// Squares up to `delta`, absolute values beyond: loss() with LossKind::huber.
inline Var huber(Var prediction, Var target, float delta = 1) {
  return loss(prediction, target, {ops::LossKind::huber, delta});
}
/// target: s32 class numbers, one per sample: graph.input(name, {}, DType::s32), or one per row: {rows per sample}.
inline Var cross_entropy(Var logits, Var target) { return loss(logits, target, {ops::LossKind::cross_entropy}); }
/// Cross entropy of each pixel, for segmentation: logits (N, classes, spatial...), target (N, spatial...) s32 class
/// numbers. Makes the value the graph's loss.
Var pixel_cross_entropy(Var logits, Var target, const ops::PixelLossParams& params = {},
                        const std::string& name = "loss");

}  // namespace keelson
