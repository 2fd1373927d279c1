#pragma once

#include <optional>

#include "engine/layers/batch_norm.hpp"
#include "engine/layers/eltwise.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/eltwise.hpp"
#include "engine/plan/node_builder.hpp"

/// Parts that convolution and dense layers share: one primitive with weights, a bias and a fused activation.
namespace keelson {

/// Whether a layer with the activation `own` can also apply `activation`: a common one; in training only if the
/// derivative can be computed from the result.
inline bool can_apply(const ops::EltwiseParams& activation, const ops::EltwiseParams& own, bool training) {
  const bool is_common = ops::is_activation(activation.kind) || activation.kind == ops::EltwiseKind::linear;
  return own.kind == ops::EltwiseKind::identity && is_common && (!training || ops::derivative_from_dst(activation));
}

/// A batch normalization with running statistics that was fused into the layer before it (Layer::fusion_rules). Its
/// parameters keep their names in the fused node: "scale", "shift", "running_mean", "running_variance".
struct FoldedBatchNorm {
  float epsilon;  ///< as in BatchNormOptions
  int axis;       ///< the dimension of the layer's weights that counts the channels of its result
};

/// Whether to fold a batch normalization into the weights of `layer`: without training, and if the layer's result for
/// the whole batch is much larger than its weights. The fold reads and writes the weights in each forward pass, and
/// reorders before and after it may do so, too. In return, the normalization and a following activation do not read and
/// write the result.
bool fold_pays(const Layer& layer, const FusionPlace& at);

/// The parameters from which the weights and the bias of a primitive are made.
struct WeightedParameters {
  bool bias = true;                           ///< the layer has a parameter "bias"
  std::optional<FoldedBatchNorm> norm = {};   ///< batch normalization that is folded into both
  bool adds() const { return bias || norm; }  ///< whether the primitive adds a bias
};

/// The channels of a layer with weights: how many it reads and makes, and in which dimensions of the weights they are.
struct WeightedChannels {
  std::int64_t in = 0, out = 0;  ///< channels that the layer reads and makes
  std::int64_t groups = 1;       ///< groups of channels, each with its own weights
  bool bias = true;              ///< the layer has a parameter "bias"
  int in_dim = 1, out_dim = 0;   ///< the dimensions of the weights that count them
};
/// The ties of the layer: the channels that it reads, and those that it makes. In several groups, the channels that a
/// group reads and makes belong together.
std::vector<ChannelTie> weighted_ties(const WeightedChannels& c);
/// The number of groups of a layer that reads `now` channels instead of `before` in `groups` groups. Groups keep their
/// size.
std::int64_t groups_with_channels(std::int64_t groups, std::int64_t before, std::int64_t now);

/// Weight operands of a primitive.
struct WeightsAndBias {
  BufferId weights, bias;  ///< bias: no_buffer if there is none
};
/// The weights in this layout and dtype, and the bias. With a batch normalization, emits a call that folds it into
/// copies of both. The call runs in every forward pass, since parameters and statistics may have changed.
WeightsAndBias weights_and_bias(ForwardBuilder& p, const WeightedParameters& of, const Layout& layout, DType type);

/// Emits the gradient before a fused activation, in place if nothing else needs `diff_dst`. Returns diff_dst itself for
/// identity.
BufferId activation_backward(BackwardBuilder& b, const ops::EltwiseParams& activation, BufferId dst, BufferId diff_dst);

/// Emits the gradient of the bias, the sum of `diff` over samples and positions, for ops that do not compute it.
void bias_gradient(BackwardBuilder& b, BufferId diff);

/// A forward call and its operands.
template <class Op>
struct WeightedForward {
  std::shared_ptr<Op> op;         ///< primitive
  std::shared_ptr<Op> with_gaps;  ///< the same for a source with gaps (make_with_gaps()), or null
  DType type, result;             ///< type: dtype of src, weights and diff_dst; result: dtype of dst and diff_src
  /// The node's source, the source as the primitive reads it, and the result.
  BufferId src, x, y;
};

/// A convolution that reads source 0 as it is, a part of a larger value. Null if the source has no gaps, or if other
/// kernels than those of `op` would read it: then a copy for the faster ones takes less time.
template <class Op, class F>
std::shared_ptr<Op> make_with_gaps(ForwardBuilder& p, const Op& op, F describe) {
  if constexpr (std::is_same_v<Op, ops::Conv>) {
    if (!p.has_gaps(p.src_buffer(0)) || p.src(0).dtype != DType::f32) return nullptr;
    std::shared_ptr<Op> made = p.try_make_with_weights("weights", [&](const TensorDesc& weights) {
      ops::ConvDesc d = describe(p.src(0), weights, DType::f32);
      d.diff_src = false;  // the gradient of the source has no gaps, so `op` makes it
      return d;
    });
    const auto alike = [&](ops::Verb v) { return made->name(v) == op.name(v); };
    if (made && alike(ops::Verb::forward) && (!p.training() || alike(ops::Verb::backward_weights))) return made;
  }
  return nullptr;
}

/// Emits the forward call. `describe(src, weights, dst's dtype)` returns the op's description for these operands. The
/// result is a new buffer of the shape of `result`. Asks the backends in this order: for 16-bit operands and result (if
/// the plan's values may have 16 bits), for 16-bit operands, and for f32.
template <class F>
auto forward_weighted(ForwardBuilder& p, const WeightedParameters& of, const TensorDesc& result, F describe) {
  using enum ops::Role;
  using enum ops::Verb;
  const Shape w_shape = p.parameter("weights").held_shape();
  DType type = p.compute(), y_type = p.result_type();
  const auto low = [&](DType of_result) {
    return p.try_make(describe(p.src_request(0, type), {w_shape, type, Layout::any()}, of_result));
  };
  auto made = is_half(type) ? low(y_type) : nullptr;
  if (!made && is_half(type) && is_half(y_type)) made = low(y_type = DType::f32);
  if (!made) {
    type = y_type = DType::f32;
    const TensorDesc x = p.src_request(0, type);
    made = p.make_with_weights("weights", [&](const TensorDesc& weights) { return describe(x, weights, y_type); });
  }
  using Op = typename decltype(made)::element_type;
  const std::shared_ptr<Op> whole = std::move(made);
  const std::shared_ptr<Op> with_gaps = type == DType::f32 ? make_with_gaps(p, *whole, describe) : nullptr;
  const std::shared_ptr<Op>& op = with_gaps ? with_gaps : whole;
  const BufferId x = p.converted(p.src_buffer(0), op->layout(forward, src), type);
  const auto [w, b] = weights_and_bias(p, of, op->layout(forward, weights), type);
  const BufferId y = p.new_buffer("dst", {result.shape, y_type, op->layout(forward, dst)});
  p.forward(op, {.src = x, .weights = w, .bias = b, .dst = y});
  return WeightedForward<Op>{whole, with_gaps, type, y_type, p.src_buffer(0), x, y};
}

/// The window that the weights multiply, for BackwardBuilder::observe().
inline ops::ConvParams product_window(const ops::DenseDesc&) { return {}; }
inline ops::ConvParams product_window(const ops::ConvDesc& d) { return d.params; }  ///< the same

/// Lets the optimizer observe a dense layer or a convolution.
template <class Op>
void observe_weighted(BackwardBuilder& b, const WeightedForward<Op>& f, const std::function<BufferId()>& diff) {
  if constexpr (requires { product_window(f.op->description()); })
    b.observe(product_window(f.op->description()), b.desc(f.x).layout.is_strided() ? f.x : f.src, diff);
}

/// Emits the gradients of the weights, of the bias if this primitive computes it, and of the source if it is needed.
template <class Op>
void backward_weighted(BackwardBuilder& b, const WeightedForward<Op>& f, BufferId diff) {
  using enum ops::Role;
  using enum ops::Verb;
  const auto& of_weights = f.with_gaps ? f.with_gaps : f.op;
  observe_weighted(b, f, [diff] { return diff; });
  const BufferId diff_w = b.converted(diff, of_weights->layout(backward_weights, diff_dst), f.type);
  const BufferId x_w = b.in_layout(f.x, of_weights->layout(backward_weights, src));
  const BufferId dw = b.new_gradient("weights", of_weights->layout(backward_weights, diff_weights));
  const BufferId db = of_weights->description().writes_diff_bias() ? b.new_gradient("bias", Layout::any()) : no_buffer;
  b.backward_weights(of_weights, {.src = x_w, .diff_dst = diff_w, .diff_weights = dw, .diff_bias = db});
  b.finish_gradients();
  if (!b.wants_diff_src(0)) return;
  const auto& op = f.op;
  const BufferId diff_d = b.converted(diff, op->layout(backward_data, diff_dst), f.type);
  const BufferId w = b.parameter_in("weights", op->layout(backward_data, weights), f.type);
  const BufferId dx = b.new_diff_src(0, op->layout(backward_data, diff_src), f.result);
  b.backward_data(op, {.diff_dst = diff_d, .weights = w, .diff_src = dx});
}

/// Emits forward_weighted(), and returns the function that emits all gradients.
template <class F>
BackwardFn plan_weighted(ForwardBuilder& p, const WeightedParameters& of, const ops::EltwiseParams& activation,
                         F describe) {
  const auto f = forward_weighted(p, of, p.dst_request(), describe);
  p.set_dst(f.y);
  return [=](BackwardBuilder& back) {
    backward_weighted(back, f, activation_backward(back, activation, f.y, back.diff_dst()));
  };
}

}  // namespace keelson
