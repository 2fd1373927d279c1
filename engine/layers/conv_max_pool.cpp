#include "engine/layers/conv_max_pool.hpp"

#include <optional>

#include "engine/ops/conv_max_pool.hpp"

namespace keelson {

namespace {

using enum ops::Role;
using enum ops::Verb;

using ConvMaxPoolOp = std::shared_ptr<ops::ConvMaxPoolBackward>;

/// The primitive for the backward pass with the pooling's argmax indices; null if no backend has it.
ConvMaxPoolOp make_backward(ForwardBuilder& p, const ops::ConvDesc& conv, const ops::PoolParams& pool) {
  const auto any = [](const Shape& s) { return TensorDesc{s, DType::f32, Layout::any()}; };
  return p.try_make(ops::ConvMaxPoolDesc{
      conv.params, pool, any(conv.src.shape), any(p.parameter("weights").held_shape()),
      any(ops::pool_dst_shape(conv.dst.shape, pool)), p.wants_diff_src(0), false, conv.exact, p.compute()});
}

/// The primitive for the gradient of the weights with argmax indices, after a forward pass of two calls; null if no
/// backend has it for these operands. A first layer needs no other gradient; the bias has its own op.
ConvMaxPoolOp make_weights_gradient(ForwardBuilder& p, const ops::ConvDesc& conv, const ops::PoolParams& pool,
                                    const TensorDesc& src, const Layout& weights_layout, const TensorDesc& dst) {
  if (!p.training() || p.wants_diff_src(0)) return nullptr;
  ops::ConvParams params = conv.params;
  params.bias = false;
  const TensorDesc weights{p.parameter("weights").held_shape(), DType::f32, weights_layout};
  return p.try_make(ops::ConvMaxPoolDesc{params, pool, src, weights, dst, false, conv.tf32});
}

void backward_by_argmax(BackwardBuilder& b, const ConvMaxPoolOp& op, BufferId x, BufferId diff, BufferId workspace,
                        bool has_bias) {
  const ops::ConvMaxPoolDesc& d = op->description();
  diff = b.converted(diff, op->layout(backward_weights, diff_dst), d.dst.dtype);
  const BufferId x_w = b.converted(x, op->layout(backward_weights, src), d.src.dtype);
  const BufferId dw = b.new_gradient("weights", op->layout(backward_weights, diff_weights));
  const BufferId db = has_bias ? b.new_gradient("bias", Layout::any()) : no_buffer;
  b.backward_weights(op, {.src = x_w, .diff_dst = diff, .workspace = workspace, .diff_weights = dw, .diff_bias = db});
  b.finish_gradients();
  if (!b.wants_diff_src(0)) return;
  const BufferId w = b.parameter_in("weights", op->layout(backward_data, weights));
  const BufferId dx = b.new_diff_src(0, op->layout(backward_data, diff_src));
  b.backward_data(op, {.diff_dst = diff, .workspace = workspace, .weights = w, .diff_src = dx});
}

using ForwardOp = std::shared_ptr<ops::ConvMaxPoolForward>;

/// The forward pass as one call, with operands of this dtype; null if no backend has it.
ForwardOp make_forward(ForwardBuilder& p, ops::ConvDesc conv, const ops::PoolParams& pool, DType type) {
  conv.src = {conv.src.shape, type, Layout::channels_last(conv.src.shape)};
  conv.dst = {conv.dst.shape, p.result_type(), Layout::channels_last(conv.dst.shape)};
  const Shape pooled = ops::pool_dst_shape(conv.dst.shape, pool);
  const TensorDesc dst{pooled, conv.dst.dtype, Layout::channels_last(pooled)};
  const auto describe = [&](const TensorDesc& weights) {
    ops::ConvDesc d = conv;
    d.weights = {weights.shape, type, weights.layout};
    return ops::ConvMaxPoolForwardDesc{d, pool, dst, p.training()};
  };
  const Shape w_shape = p.parameter("weights").held_shape();
  if (type == DType::f32) return p.try_make_with_weights("weights", describe);
  return p.try_make(describe({w_shape, type, Layout::any()}));
}

/// Emits the call and sets the node's result. Returns the workspace.
BufferId forward_as_one(ForwardBuilder& p, const ForwardOp& op, const WeightedParameters& of) {
  const ops::ConvMaxPoolForwardDesc& d = op->description();
  const BufferId x = p.converted(p.src_buffer(0), d.conv.src.layout, d.conv.src.dtype);
  const auto [w, b] = weights_and_bias(p, of, op->layout(forward, weights), d.conv.src.dtype);
  const BufferId workspace = p.workspace(*op), y = p.new_dst(d.dst.layout, d.dst.dtype);
  p.forward(op, {.src = x, .weights = w, .bias = b, .dst = y, .workspace = workspace}, "conv + max_pool");
  return workspace;
}

/// For an optimizer that observes the layer: a pooling whose backward pass reads the argmax indices of this forward
/// pass. Null if no backend has one.
std::shared_ptr<ops::Pool> make_unpooling(ForwardBuilder& p, const ops::ConvMaxPoolForwardDesc& d) {
  auto made = p.try_make(ops::PoolDesc{d.pool, {d.conv.dst.shape, d.dst.dtype, d.conv.dst.layout}, d.dst, true});
  const bool reads_indices =
      made && made->workspace_bytes() > 0 && made->layout(backward_data, diff_dst) == d.dst.layout;
  return reads_indices ? std::shared_ptr<ops::Pool>(std::move(made)) : nullptr;
}

/// With results of 16 bits: the forward pass as one call, and the gradient of the weights with argmax indices. Null if
/// a backend has only one of them.
std::optional<BackwardFn> plan_as_one(ForwardBuilder& p, const ops::ConvDesc& conv, const ops::PoolParams& pool,
                                      const WeightedParameters& of) {
  if (p.training() && p.wants_diff_src(0)) return std::nullopt;
  const ForwardOp op = make_forward(p, conv, pool, p.compute());
  if (!op) return std::nullopt;
  const ops::ConvMaxPoolForwardDesc& d = op->description();
  const ConvMaxPoolOp gradient = make_weights_gradient(p, conv, pool, d.conv.src, Layout::any(), d.dst);
  if (p.training() && !gradient) return std::nullopt;
  const BufferId workspace = forward_as_one(p, op, of), x = p.src_buffer(0), y = p.dst();
  const bool has_bias = conv.params.bias;
  const auto activation = conv.params.activation;
  return [=](BackwardBuilder& b) {
    const BufferId diff = activation_backward(b, activation, y, b.diff_dst());
    if (has_bias) bias_gradient(b, diff);
    backward_by_argmax(b, gradient, x, diff, workspace, false);
  };
}

/// The gradient of the convolution's result, in a new buffer.
BufferId unpooled(BackwardBuilder& b, const PlannedPool& pool, BufferId diff, const Shape& shape) {
  return pool_backward(
      b, pool, diff, [&](const Layout& layout, DType type) { return b.new_buffer("diff_dst", {shape, type, layout}); });
}

}  // namespace

BackwardFn plan_conv_max_pool(ForwardBuilder& p, const PoolOptions& pooling, const ops::ConvDesc& conv,
                              const WeightedParameters& of) {
  const bool has_bias = conv.params.bias;
  const auto activation = conv.params.activation;
  const ops::PoolParams pool = pool_params(ops::PoolKind::max, pooling, conv.dst.shape);
  const bool f32 = p.result_type() == DType::f32;
  const bool observed = p.is_observed();  // then the gradient of the convolution's result has to exist in some steps
  const ConvMaxPoolOp sparse = p.training() && f32 ? make_backward(p, conv, pool) : nullptr;
  if (sparse || (!p.training() && f32)) {
    const DType type = p.compute();
    ForwardOp op = make_forward(p, conv, pool, type);
    if (!op && type != DType::f32) op = make_forward(p, conv, pool, DType::f32);
    const auto unpooling = op && observed ? make_unpooling(p, op->description()) : nullptr;
    const BufferId x = p.src_buffer(0);
    if (op && (!observed || (unpooling && p.desc(x).layout.is_strided()))) {
      const BufferId indices = forward_as_one(p, op, of), y = p.dst();
      return [=](BackwardBuilder& b) {
        const BufferId diff = activation_backward(b, activation, y, b.diff_dst());
        if (observed)
          b.observe(conv.params, x,
                    [&] { return unpooled(b, {unpooling, indices, y, DType::f32}, diff, conv.dst.shape); });
        backward_by_argmax(b, sparse, x, diff, indices, has_bias);
      };
    }
  }
  if (!f32 && !observed)
    if (auto planned = plan_as_one(p, conv, pool, of)) return *planned;
  const auto f = forward_weighted(p, of, conv.dst, [&](const TensorDesc& x, const TensorDesc& w, DType result) {
    ops::ConvDesc d = conv;
    d.src = x;
    d.weights = w;
    d.dst.dtype = result;
    d.diff_bias = false;
    return d;
  });
  const PlannedPool planned = plan_pool(p, pool, f.y);
  // The argmax indices must be read in the layout in which the pooling wrote them.
  const bool by_argmax = sparse && p.desc(planned.dst).layout == sparse->layout(backward_weights, diff_dst);
  const ConvMaxPoolOp of_weights =
      sparse ? nullptr
             : make_weights_gradient(p, conv, pool, p.desc(f.x), f.op->layout(backward_weights, diff_weights),
                                     p.desc(planned.dst));
  return [=](BackwardBuilder& b) {
    const BufferId diff = activation_backward(b, activation, planned.dst, b.diff_dst());
    const auto unpool = [&] { return unpooled(b, planned, diff, conv.dst.shape); };
    // The other gradients know from the argmax indices which elements are not zero, and need no such tensor.
    if (by_argmax || of_weights) observe_weighted(b, f, unpool);
    if (by_argmax) return backward_by_argmax(b, sparse, f.src, diff, planned.workspace, has_bias);
    // Each window passes its gradient on to one element. So the sum over windows equals the sum over elements, and
    // there are fewer windows: an eighth for windows of 2 x 2 x 2.
    if (has_bias) bias_gradient(b, diff);
    if (of_weights) return backward_by_argmax(b, of_weights, f.x, diff, planned.workspace, false);
    backward_weighted(b, f, unpool());
  };
}

}  // namespace keelson
