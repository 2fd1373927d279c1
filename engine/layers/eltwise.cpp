#include "engine/layers/eltwise.hpp"

#include "engine/layers/layers.hpp"
#include "engine/layers/weighted.hpp"

namespace keelson {

BufferId activation_backward(BackwardBuilder& b, const ops::EltwiseParams& activation, BufferId saved,
                             BufferId diff_dst) {
  if (activation.kind == ops::EltwiseKind::identity) return diff_dst;
  const TensorDesc d = b.desc(saved);
  auto eltwise = b.make(ops::EltwiseDesc{activation, d});
  diff_dst = b.converted(diff_dst, d.layout, d.dtype);
  const BufferId result = b.new_buffer("diff_activation", d);
  b.backward_data(eltwise, {.diff_dst = diff_dst, .saved = saved, .diff_src = result}, ops::to_string(activation));
  return result;
}

BackwardFn EltwiseLayer::plan(ForwardBuilder& p) const {
  TensorDesc d = p.src(0);
  d.dtype = p.type();
  auto eltwise = p.try_make(ops::EltwiseDesc{params_, d});
  if (!eltwise) eltwise = p.make(ops::EltwiseDesc{params_, d.with(p.strided_src(0))});
  const BufferId src = p.src_in(0, eltwise->layout(ops::Verb::forward, ops::Role::src));
  const BufferId dst = p.new_dst(p.desc(src).layout, d.dtype);
  p.forward(eltwise, {.src = src, .dst = dst});
  const BufferId saved = ops::derivative_from_dst(params_) ? dst : src;
  return [params = params_, saved](BackwardBuilder& b) {
    b.set_diff_src(0, activation_backward(b, params, saved, b.diff_dst()));
  };
}

namespace {

Var eltwise(Var x, const std::string& kind, const ops::EltwiseParams& params, const std::string& name) {
  return x.graph->add(std::make_shared<EltwiseLayer>(kind, params), {x}, name);
}

}  // namespace

Var relu(Var x, const std::string& name) { return eltwise(x, "relu", {ops::EltwiseKind::relu}, name); }
Var leaky_relu(Var x, float slope, const std::string& name) {
  return eltwise(x, "leaky_relu", {ops::EltwiseKind::leaky_relu, slope}, name);
}
Var tanh(Var x, const std::string& name) { return eltwise(x, "tanh", {ops::EltwiseKind::tanh}, name); }
Var sigmoid(Var x, const std::string& name) { return eltwise(x, "sigmoid", {ops::EltwiseKind::sigmoid}, name); }
Var gelu(Var x, const std::string& name) { return eltwise(x, "gelu", {ops::EltwiseKind::gelu}, name); }
Var silu(Var x, const std::string& name) { return eltwise(x, "silu", {ops::EltwiseKind::silu}, name); }
Var scale(Var x, float factor, float offset, const std::string& name) {
  return eltwise(x, "scale", {ops::EltwiseKind::linear, factor, offset}, name);
}

}  // namespace keelson
