#pragma once

#include "engine/layers/pool.hpp"
#include "engine/layers/weighted.hpp"

/// A convolution, its activation and the max pooling behind it as one node. Backward, the activation's derivative is
/// applied to the pooled gradient, which is smaller, and where a backend has ops::PooledConvBackward the gradient of
/// the convolution's result is never made. Either way that result need not be kept.
namespace keelson {

/// Backward by the pooling's winners.
inline void backward_by_winners(BackwardPlan& b, const std::shared_ptr<ops::PooledConvBackward>& op, BufferId x,
                                BufferId diff, BufferId workspace, bool has_bias) {
  using enum ops::Role;
  using enum ops::Verb;
  const BufferId x_w = b.in_layout(x, op->layout(backward_weights, src));
  const BufferId dw = b.new_gradient("weights", op->layout(backward_weights, diff_weights));
  const BufferId db = has_bias ? b.new_gradient("bias", Layout::any()) : no_buffer;
  b.call(op, backward_weights,
         {in(x_w), in(diff), in(workspace), out(dw), out(db), out(b.scratch(*op, backward_weights))},
         [](ops::PooledConvBackward& o, const Tensor* t) { o.backward_weights(t[0], t[1], t[2], t[3], t[4], t[5]); });
  b.finish_gradients();
  if (!b.wants_diff_src(0)) return;
  const BufferId w = b.parameter_in("weights", op->layout(backward_data, weights));
  const BufferId dx = b.new_diff_src(0, op->layout(backward_data, diff_src));
  b.call(op, backward_data, {in(diff), in(workspace), in(w), out(dx), out(b.scratch(*op, backward_data))},
         [](ops::PooledConvBackward& o, const Tensor* t) { o.backward_data(t[0], t[1], t[2], t[3], t[4]); });
}

/// `describe(src, weights)` gives the convolution's description for these operands.
template <class F>
BackwardFn plan_pooled_conv(NodePlan& p, const PoolOptions& pooling, F describe) {
  const ops::ConvDesc conv = describe(p.src(0), TensorDesc{});
  const bool has_bias = conv.params.bias;
  const auto f = forward_weighted(p, has_bias, conv.dst, describe);
  const ops::PoolParams pool = pool_params(ops::PoolKind::max, pooling, conv.dst.shape);
  const PlannedPool planned = plan_pool(p, pool, f.y);
  return [=](BackwardPlan& b) {
    BufferId diff = activation_backward(b, conv.params.activation, planned.dst, b.diff_dst());
    const TensorDesc any_weights{b.parameter_shape("weights"), DType::f32, Layout::any()};
    const std::shared_ptr<ops::PooledConvBackward> direct = b.try_make(ops::PooledConvDesc{
        conv.params, pool, b.desc(f.src).with(Layout::any()), any_weights, b.desc(planned.dst), b.wants_diff_src(0)});
    if (direct) {
      diff = b.in_layout(diff, b.desc(planned.dst).layout);
      backward_by_winners(b, direct, f.src, diff, planned.workspace, has_bias);
      return;
    }
    const BufferId unpooled = pool_backward(
        b, planned, diff, [&](const Layout& layout) { return b.new_buffer("diff_dst", conv.dst.with(layout)); });
    backward_weighted(b, f, unpooled, has_bias);
  };
}

}  // namespace keelson
