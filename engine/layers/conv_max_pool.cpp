#include "engine/layers/conv_max_pool.hpp"

#include "engine/layers/depth_tiled_conv.hpp"

namespace keelson {

namespace {

using enum ops::Role;
using enum ops::Verb;

using ConvMaxPoolOp = std::shared_ptr<ops::ConvMaxPoolBackward>;

/// The backward pass by the argmax indices of the pooling, where a backend has it.
ConvMaxPoolOp make_backward(ForwardBuilder& p, const ops::ConvDesc& conv, const ops::PoolParams& pool) {
  const auto any = [](const Shape& s) { return TensorDesc{s, DType::f32, Layout::any()}; };
  return p.try_make(ops::ConvMaxPoolDesc{conv.params, pool, any(conv.src.shape), any(p.parameter("weights").shape),
                                         any(ops::pool_dst_shape(conv.dst.shape, pool)), p.wants_diff_src(0)});
}

void backward_by_argmax(BackwardBuilder& b, const ConvMaxPoolOp& op, BufferId x, BufferId diff, BufferId workspace,
                        bool has_bias) {
  diff = b.in_layout(diff, op->layout(backward_weights, diff_dst));
  const BufferId x_w = b.in_layout(x, op->layout(backward_weights, src));
  const BufferId dw = b.new_gradient("weights", op->layout(backward_weights, diff_weights));
  const BufferId db = has_bias ? b.new_gradient("bias", Layout::any()) : no_buffer;
  b.call(op, backward_weights,
         {in(x_w), in(diff), in(workspace), out(dw), out(db), out(b.scratch(*op, backward_weights))},
         [](ops::ConvMaxPoolBackward& o, const Tensor* t) { o.backward_weights(t[0], t[1], t[2], t[3], t[4], t[5]); });
  b.finish_gradients();
  if (!b.wants_diff_src(0)) return;
  const BufferId w = b.parameter_in("weights", op->layout(backward_data, weights));
  const BufferId dx = b.new_diff_src(0, op->layout(backward_data, diff_src));
  b.call(op, backward_data, {in(diff), in(workspace), in(w), out(dx), out(b.scratch(*op, backward_data))},
         [](ops::ConvMaxPoolBackward& o, const Tensor* t) { o.backward_data(t[0], t[1], t[2], t[3], t[4]); });
}

/// Emits the forward pass by tiled and sets the node's result; returns the workspace.
BufferId forward_depth_tiled(ForwardBuilder& p, const std::shared_ptr<DepthTiledConv>& op, DType type, bool has_bias) {
  const BufferId x = p.converted(p.src_buffer(0), op->layout(forward, src), type);
  const BufferId w = p.parameter_in("weights", op->layout(forward, weights), type);
  const BufferId b = has_bias ? p.parameter_in("bias", Layout::any()) : no_buffer;
  const BufferId workspace = p.workspace(*op);
  const BufferId y = p.new_dst(op->layout(forward, dst));
  p.call(
      op, forward, {in(x), in(w), in(b), out(y), out(workspace), out(p.scratch(*op, forward))},
      [](DepthTiledConv& o, const Tensor* t) { o.forward(t[0], t[1], t[2], t[3], t[4], t[5]); }, "conv + max_pool");
  return workspace;
}

std::shared_ptr<DepthTiledConv> make_depth_tiled(ForwardBuilder& p, ops::ConvDesc conv, const ops::PoolParams& pool,
                                                 DType type) {
  conv.src.dtype = type;
  conv.weights = {p.parameter("weights").shape, type, Layout::any()};
  return DepthTiledConv::make(p, conv, pool);
}

}  // namespace

BackwardFn plan_conv_max_pool(ForwardBuilder& p, const PoolOptions& pooling, const ops::ConvDesc& conv) {
  const bool has_bias = conv.params.bias;
  const auto activation = conv.params.activation;
  const ops::PoolParams pool = pool_params(ops::PoolKind::max, pooling, conv.dst.shape);
  const bool f32 = p.result_type() == DType::f32;
  const ConvMaxPoolOp sparse = p.training() && f32 ? make_backward(p, conv, pool) : nullptr;
  if (sparse || (!p.training() && f32)) {
    DType type = p.compute();
    auto tiled = make_depth_tiled(p, conv, pool, type);
    if (!tiled && type != DType::f32) tiled = make_depth_tiled(p, conv, pool, type = DType::f32);
    if (tiled) {
      const BufferId x = p.src_buffer(0), workspace = forward_depth_tiled(p, tiled, type, has_bias), y = p.dst();
      return [=](BackwardBuilder& b) {
        backward_by_argmax(b, sparse, x, activation_backward(b, activation, y, b.diff_dst()), workspace, has_bias);
      };
    }
  }
  const auto f = forward_weighted(p, has_bias, conv.dst, [&](const TensorDesc& x, const TensorDesc& w, DType result) {
    ops::ConvDesc d = conv;
    d.src = x;
    d.weights = w;
    d.dst.dtype = result;
    return d;
  });
  const PlannedPool planned = plan_pool(p, pool, f.y);
  // The argmax indices are read in the layout in which the pooling left them.
  const bool by_argmax = sparse && p.desc(planned.dst).layout == sparse->layout(backward_weights, diff_dst);
  return [=](BackwardBuilder& b) {
    const BufferId diff = activation_backward(b, activation, planned.dst, b.diff_dst());
    if (by_argmax) return backward_by_argmax(b, sparse, f.src, diff, planned.workspace, has_bias);
    const BufferId unpooled = pool_backward(b, planned, diff, [&](const Layout& layout, DType type) {
      return b.new_buffer("diff_dst", {conv.dst.shape, type, layout});
    });
    backward_weighted(b, f, unpooled, has_bias);
  };
}

}  // namespace keelson
