#pragma once

#include <optional>

#include "engine/graph/graph.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/pixel_loss.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/resize.hpp"

/// Functions that build networks. Each function appends one node to its argument's graph and returns the node's value.
/// `name` (default: kind and number) is the prefix of the node's parameters. All functions throw InputError, naming the
/// node, for shapes that do not fit.
///
/// Values are logical (N, C, [D,] H, W) or (N, features).
namespace keelson {

/// Zeros around the source. same: as many as make the result's extent ceil(extent / stride); valid: none; given: as
/// given.
enum class Padding { same, valid, given };

/// Options of a convolution: 2-D for (N, C, H, W) values, 3-D for (N, C, D, H, W). Shapes have one entry per spatial
/// dimension; `size` gives a cubic kernel.
struct ConvOptions {
  std::int64_t filters = 1;         ///< channels of the result
  std::int64_t size = 3;            ///< extent of the cubic kernel
  std::int64_t stride = 1;          ///< step between windows, in every spatial dimension
  Padding padding = Padding::same;  ///< zeros around the source
  std::int64_t dilation = 1;        ///< distance between a kernel's elements; 1: dense
  std::int64_t groups = 1;          ///< groups of channels, each with its own filters
  bool bias = true;                 ///< adds a bias to each channel
  Shape kernel = {};                ///< overrides size
  Shape strides = {};               ///< overrides stride
  /// Zeros before and after each spatial dimension; an empty pad_end means pad_begin.
  Shape pad_begin = {}, pad_end = {};  ///< with Padding::given
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// Convolution (cross-correlation); parameters "weights" (filters, C / groups, kernel...) and "bias" (filters).
Var conv(Var x, const ConvOptions& options, const std::string& name = "");

/// Options of a transposed convolution: 2-D and 3-D, as in ConvOptions.
struct TransposedConvOptions {
  std::int64_t filters = 1;  ///< channels of the result
  std::int64_t size = 3;     ///< extent of the cubic kernel
  std::int64_t stride = 1;   ///< distance of two source elements in the result, in every spatial dimension
  /// Elements cut off the result. same: as many as make every extent stride times the source's, as in TensorFlow; an
  /// odd element is cut off at the end: out[2i + k] += x[i] w[k] for size 3 and stride 2. valid: none.
  Padding padding = Padding::same;
  std::int64_t dilation = 1;  ///< distance between a kernel's elements; 1: dense
  std::int64_t groups = 1;    ///< groups of channels, each with its own weights
  bool bias = true;           ///< adds a bias to each channel
  Shape kernel = {};          ///< overrides size
  /// With Padding::given: elements cut off the beginning and the end of each spatial dimension (an empty pad_end means
  /// pad_begin), and elements added to the end of each one, fewer than the stride. PyTorch's padding 1 and output
  /// padding 1, with size 3 and stride 2: pad_begin {1, 1}, output_padding 1; out[2i + k - 1] += x[i] w[k].
  Shape pad_begin = {}, pad_end = {};  ///< with Padding::given
  std::int64_t output_padding = 0;     ///< with Padding::given
  Init weights_init = Init::fan_in_uniform();
  Init bias_init = Init::constant(0);
};
/// Transposed convolution, also called deconvolution; parameters "weights" (C, filters / groups, kernel...) and "bias"
/// (filters).
Var transposed_conv(Var x, const TransposedConvOptions& options, const std::string& name = "");

/// Windows of a pooling. Shapes have one entry per spatial dimension.
struct PoolOptions {
  std::int64_t size = 2;               ///< extent of a cubic window
  std::int64_t stride = 0;             ///< step between windows; 0: windows do not overlap
  std::int64_t padding = 0;            ///< elements at both ends; a maximum ignores them
  bool count_padding = false;          ///< only for averages: padding counts in the divisor
  Shape kernel = {};                   ///< overrides size
  Shape pad_begin = {}, pad_end = {};  ///< if both are given, they override padding
};
/// The largest element of each window; NaN if a window has a NaN.
Var max_pool(Var x, const PoolOptions& options, const std::string& name = "");
/// The mean of each window.
Var average_pool(Var x, const PoolOptions& options, const std::string& name = "");
/// max_pool() with windows that do not overlap.
inline Var max_pool(Var x, std::int64_t size, const std::string& name = "") {
  return max_pool(x, PoolOptions{.size = size}, name);
}
/// average_pool() with windows that do not overlap.
inline Var average_pool(Var x, std::int64_t size, const std::string& name = "") {
  return average_pool(x, PoolOptions{.size = size}, name);
}
/// The mean of each channel of x (N, C, spatial...): (N, C, 1...). Adds a node for each spatial dimension, so that no
/// thread sums a whole sample in f32.
Var global_average_pool(Var x, const std::string& name = "");

/// Bilinear interpolation to a given size.
struct ResizeOptions {
  /// Extents of the result.
  std::int64_t rows = 1, columns = 1;
  ops::ResizeGrid grid = ops::ResizeGrid::half_pixel;  ///< half_pixel: as in PyTorch; asymmetric: as in TensorFlow 1
};
/// x (N, C, H, W) -> (N, C, rows, columns). A source of 1 x 1 is repeated.
Var resize(Var x, const ResizeOptions& options, const std::string& name = "");

/// Options of a dense layer: every result depends on every feature.
struct DenseOptions {
  std::int64_t features = 1;  ///< features of the result
  bool bias = true;           ///< adds a bias to each feature
  /// Name of a node whose weights (features, in) are used: an embedding of (features, in) or another dense layer.
  std::string weights_of = {};
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// x (N, in) weights^T + bias: (N, features); parameters "weights" (features, in) and "bias" (features).
Var dense(Var x, const DenseOptions& options, const std::string& name = "");
/// dense() with default options.
inline Var dense(Var x, std::int64_t features, const std::string& name = "") {
  return dense(x, DenseOptions{.features = features}, name);
}

/// Batch normalization (Ioffe, Szegedy 2015): each channel of x (N, C, ...) with mean 0 and variance 1, times scale,
/// plus shift. Training uses mean and variance of the batch, without the padding of a short batch. Evaluation uses the
/// running statistics, which in each step move by `momentum` towards the statistics of all ranks' batch, as in PyTorch.
struct BatchNormOptions {
  float momentum = 0.1f;  ///< share of the new batch in the running statistics
  float epsilon = 1e-5f;  ///< added to the variance
  /// Over whose samples training takes mean and variance. 0: over all ranks; results then do not depend on their
  /// number. 1: each rank alone. Else: over groups of this number of neighbouring ranks; the last group is smaller if
  /// this does not divide the number of ranks; a larger number than there are ranks means all. If a replica has
  /// several ranks (the axis space of the process grid), this counts replicas.
  int ranks = 0;
  Init scale_init = Init::constant(1);  ///< initial scale
  Init shift_init = Init::constant(0);  ///< initial shift
};
/// Parameters "scale" and "shift" (C), statistics "running_mean" and "running_variance" (C).
Var batch_norm(Var x, const BatchNormOptions& options = {}, const std::string& name = "");

/// x / sqrt(mean of x^2 along a row + epsilon) * scale, for x (N, features); parameter "scale" (features).
Var rms_norm(Var x, float epsilon = 1e-5f, const std::string& name = "");

/// Options of layer and group normalization.
struct GroupNormOptions {
  float epsilon = 1e-5f;                ///< added to the variance
  Init scale_init = Init::constant(1);  ///< initial scale
  Init shift_init = Init::constant(0);  ///< initial shift
};
/// Group normalization (Wu, He 2018, arXiv 1803.08494): the values of C / groups neighbouring channels of a sample of x
/// (N, C, ...) get mean 0 and variance 1, and then each channel is multiplied by scale, plus shift. As PyTorch's
/// GroupNorm; parameters "scale" and "shift" (C). Samples do not depend on each other, and there are no running
/// statistics.
Var group_norm(Var x, std::int64_t groups, const GroupNormOptions& options = {}, const std::string& name = "");
/// Layer normalization (Ba et al. 2016, arXiv 1607.06450): of rows x (N, features), each row alone, as PyTorch's
/// LayerNorm; of x (N, C, spatial...) it is group normalization with one group. Parameters "scale" and "shift", one
/// value per feature or channel.
Var layer_norm(Var x, const GroupNormOptions& options = {}, const std::string& name = "");

/// max(x, 0)
Var relu(Var x, const std::string& name = "");
/// x if x > 0, else slope x.
Var leaky_relu(Var x, float slope, const std::string& name = "");
/// Hyperbolic tangent.
Var tanh(Var x, const std::string& name = "");
/// 1 / (1 + exp(-x))
Var sigmoid(Var x, const std::string& name = "");
/// x / 2 (1 + erf(x / sqrt 2)).
Var gelu(Var x, const std::string& name = "");
/// x sigmoid(x), also called swish.
Var silu(Var x, const std::string& name = "");
/// x if x > 0, else alpha (exp(x) - 1) (Clevert et al. 2016).
Var elu(Var x, float alpha = 1, const std::string& name = "");
/// log(1 + exp(x)), a smooth relu.
Var softplus(Var x, const std::string& name = "");
/// factor x + offset
Var scale(Var x, float factor, float offset = 0, const std::string& name = "");
/// |x|; the derivative at 0 is 0.
Var abs(Var x, const std::string& name = "");
/// The exponential function; infinity above 88.
Var exp(Var x, const std::string& name = "");
/// The natural logarithm; -infinity for 0, NaN below.
Var log(Var x, const std::string& name = "");
/// x^exponent; NaN for x < 0 unless the exponent is a whole number. 0.5: the square root, -1: 1 / x.
Var power(Var x, float exponent, const std::string& name = "");

/// Looks up rows of a table: x (N) or (N, steps) s32 -> (N * steps, features), with step t of sample n in row n * steps
/// + t. The gradient and the update touch only the rows that occur, except if another node shares the table, if the
/// optimizer changes rows without a gradient (momentum, Adam, weight decay), or if there are so many ranks that
/// exchanging the whole gradient is cheaper.
struct EmbeddingOptions {
  /// Rows and columns of the table.
  std::int64_t entries = 1, features = 1;
  Init weights_init = Init::uniform(0.1f);
};
/// Parameter "weights" (entries, features).
Var embedding(Var x, const EmbeddingOptions& options, const std::string& name = "");

/// Recurrent layers in sequence, over x (N * steps, features) with steps as above -> (N * steps, hidden). Layer l
/// consists of a dense node "<name><l>_input", which computes the input parts of all steps, with bias, and the node
/// "<name><l>", whose weights (gates * hidden, hidden) are applied to h of the previous step. The first h comes from
/// the state "<name><l>_state". Formulas: ops::CellKind.
struct RecurrentOptions {
  std::int64_t hidden = 1;  ///< features of each layer's result
  int layers = 1;           ///< number of layers in sequence
  float dropout = 0;        ///< between layers, not from step to step (Zaremba et al. 2014)
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
  /// Whether the state goes on from one batch to the next, for long texts. false: each sample is a sequence of its own,
  /// which begins with zeros; there is no state "<name><l>_state".
  bool carries_state = true;
};
/// Long short-term memory.
Var lstm(Var x, const RecurrentOptions& options, const std::string& name = "");
/// Gated recurrent units.
Var gru(Var x, const RecurrentOptions& options, const std::string& name = "");

/// The last of the steps of each sample, x (N * steps, features) with steps as above -> (N, features). `steps` is the
/// number of x's rows for a sample.
Var last_step(Var x, const std::string& name = "");

/// Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762) of three values (N * steps, features) with
/// steps as above: dst[i] = sum over steps j of softmax(scale * dot(query[i], key[j])) value[j], in each sample and in
/// each of `heads` parts of the features; scale = 1 / sqrt(features / heads). causal: only steps j <= i. `steps` is the
/// number of rows for a sample.
Var attention(Var queries, Var keys, Var values, std::int64_t heads, bool causal = false, const std::string& name = "");

/// Options of multi-head attention.
struct MultiHeadAttentionOptions {
  std::int64_t heads = 1;  ///< divides the features
  bool causal = false;     ///< a step sees no later steps
  bool bias = true;        ///< of the dense layers
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// Self-attention, x (N * steps, features) -> (N * steps, features): dense(attention(dense(x), dense(x), dense(x))).
/// The dense nodes are "<name>_queries", "<name>_keys", "<name>_values" and "<name>" itself, attention is
/// "<name>_heads".
Var multi_head_attention(Var x, const MultiHeadAttentionOptions& options, const std::string& name = "");

/// In training plans, sets elements to 0 at random with probability `rate` and divides the others by 1 - rate; in
/// evaluation plans the result is x.
Var dropout(Var x, float rate, const std::string& name = "");

/// The order in which elements are read: by logical dimensions (as in PyTorch), or with channels last (as in
/// TensorFlow).
enum class ElementOrder { logical, channels_last };
/// One sample's elements, regrouped as rows of `features`: (N, ...) -> (N * elements / features, features). features 0:
/// all, one row.
Var flatten(Var x, ElementOrder order = ElementOrder::logical, std::int64_t features = 0, const std::string& name = "");
/// The same elements in logical order, with another shape of a sample: (N, ...) -> (N, sample...).
Var reshape(Var x, const Shape& sample, const std::string& name = "");

/// The sum of values of the same shape.
Var add(const std::vector<Var>& xs, const std::string& name = "");
/// The sum of two values of the same shape.
inline Var operator+(Var a, Var b) { return add({a, b}); }
/// The difference of two values of the same shape.
inline Var operator-(Var a, Var b) { return add({a, scale(b, -1)}); }
/// The product of values of the same shape, element by element.
Var multiply(const std::vector<Var>& xs, const std::string& name = "");
/// The product of two values of the same shape, element by element.
inline Var operator*(Var a, Var b) { return multiply({a, b}); }
/// Concatenates values along `axis`.
Var concat(const std::vector<Var>& xs, int axis = 1, const std::string& name = "");
/// exp(x) / sum of exp(x) along `axis`.
Var softmax(Var x, int axis = 1, const std::string& name = "");

/// Compares a prediction (rows, F) with a target input (one row per sample) and makes the result the graph's loss.
/// importance: an input () f32, what the loss of each sample is multiplied by; none: 1. The losses of a batch are
/// divided by the number of its samples, whatever their importance.
Var loss(Var prediction, Var target, const ops::LossParams& params, const std::string& name = "loss",
         std::optional<Var> importance = {});
/// The mean of squares: loss() with LossKind::mse.
inline Var mse(Var prediction, Var target) { return loss(prediction, target, {ops::LossKind::mse}); }
/// The mean of absolute values: loss() with LossKind::mae.
inline Var mae(Var prediction, Var target) { return loss(prediction, target, {ops::LossKind::mae}); }
/// Squares up to `delta`, absolute values beyond: loss() with LossKind::huber.
inline Var huber(Var prediction, Var target, float delta = 1) {
  return loss(prediction, target, {ops::LossKind::huber, delta});
}
/// The negative logarithm of a normal density, without its constant: loss() with LossKind::gaussian_nll. mean, spread
/// (rows, features): the variance is gaussian_variance(spread).
inline Var gaussian_nll(Var mean, Var spread, Var target) {
  return loss(concat({mean, spread}, 1, "distribution"), target, {ops::LossKind::gaussian_nll});
}
/// softplus(spread) + ops::least_variance, as gaussian_nll() has it.
inline Var gaussian_variance(Var spread, const std::string& name = "") {
  return scale(softplus(spread), 1, ops::least_variance, name);
}
/// target: s32 class numbers, one per sample: graph.input(name, {}, DType::s32), or one per row: {rows per sample}.
inline Var cross_entropy(Var logits, Var target) { return loss(logits, target, {ops::LossKind::cross_entropy}); }
/// target: f32 of the logits' shape, from 0 to 1: whether each label holds. A sample can have several labels.
inline Var binary_cross_entropy(Var logits, Var target) {
  return loss(logits, target, {ops::LossKind::binary_cross_entropy});
}
/// A softmax over many classes whose training computes only some of them.
struct SampledSoftmaxOptions {
  std::int64_t classes = 2;     ///< number of classes, the most frequent first
  std::int64_t samples = 1;     ///< classes that are drawn in each step, fewer than `classes`
  bool sum_rows = false;        ///< as in ops::LossParams
  std::string weights_of = {};  ///< as in DenseOptions
  Init weights_init = Init::glorot_uniform();
  Init bias_init = Init::constant(0);
};
/// The cross entropy of dense(x, classes), with the same parameters: "weights" (classes, features) and "bias"
/// (classes). x: (N, features) or (N * rows, features), target: as of cross_entropy(). The node is the graph's loss.
/// Evaluation computes all classes. Training estimates the sum over all classes from `samples` of them, which are drawn
/// anew in each step, the frequent ones more often, and from the row's class (ops/sampled_softmax.hpp). A step computes
/// samples + rows logits a row. The gradient of the weights has rows for these classes alone, as that of an embedding.
Var sampled_softmax(Var x, Var target, const SampledSoftmaxOptions& options, const std::string& name = "");
/// A loss of the user's own formula: the mean of all elements of a sample's x becomes the loss of the sample, and the
/// mean of the samples the graph's loss. x has any shape (N, ...) or (rows, F), and depends on predictions and targets
/// by layers without parameters: mean_loss(power(prediction - target, 4)). importance: as of loss().
Var mean_loss(Var x, const std::string& name = "loss", std::optional<Var> importance = {});
/// Cross entropy of each pixel, for segmentation: logits (N, classes, spatial...), target (N, spatial...) s32 class
/// numbers. Makes the value the graph's loss.
Var pixel_cross_entropy(Var logits, Var target, const ops::PixelLossParams& params = {},
                        const std::string& name = "loss");

}  // namespace keelson
