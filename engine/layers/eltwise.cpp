#include "engine/layers/eltwise.hpp"

#include <numbers>

#include "engine/layers/layers.hpp"
#include "engine/layers/weighted.hpp"
#include "engine/onnx/builder.hpp"

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

void EltwiseLayer::to_onnx(OnnxBuilder& b) const {
  const std::string& x = b.src(0);
  const auto op = [&](const char* type, const std::string& other) { return b.op(type, {x, other}); };
  switch (params_.kind) {
    case ops::EltwiseKind::identity:
      return b.set_dst(x);
    case ops::EltwiseKind::relu:
      return b.set_dst(b.op("Relu", {x}));
    case ops::EltwiseKind::leaky_relu:
      return b.set_dst(b.op("LeakyRelu", {x}, {{"alpha", params_.alpha}}));
    case ops::EltwiseKind::tanh:
      return b.set_dst(b.op("Tanh", {x}));
    case ops::EltwiseKind::sigmoid:
      return b.set_dst(b.op("Sigmoid", {x}));
    case ops::EltwiseKind::gelu: {  // ONNX has a Gelu operator only from opset 20 on
      const auto erf = b.op("Erf", {op("Mul", b.scalar(1 / std::numbers::sqrt2_v<float>))});
      return b.set_dst(b.op("Mul", {op("Mul", b.scalar(0.5f)), b.op("Add", {erf, b.scalar(1)})}));
    }
    case ops::EltwiseKind::silu:
      return b.set_dst(op("Mul", b.op("Sigmoid", {x})));
    case ops::EltwiseKind::elu:
      return b.set_dst(b.op("Elu", {x}, {{"alpha", params_.alpha}}));
    case ops::EltwiseKind::softplus:
      return b.set_dst(b.op("Softplus", {x}));
    case ops::EltwiseKind::linear: {
      const auto scaled = op("Mul", b.scalar(params_.alpha));
      return b.set_dst(params_.beta == 0 ? scaled : b.op("Add", {scaled, b.scalar(params_.beta)}));
    }
    case ops::EltwiseKind::abs:
      return b.set_dst(b.op("Abs", {x}));
    case ops::EltwiseKind::exp:
      return b.set_dst(b.op("Exp", {x}));
    case ops::EltwiseKind::log:
      return b.set_dst(b.op("Log", {x}));
    case ops::EltwiseKind::power:
      return b.set_dst(op("Pow", b.scalar(params_.alpha)));
  }
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
Var elu(Var x, float alpha, const std::string& name) { return eltwise(x, "elu", {ops::EltwiseKind::elu, alpha}, name); }
Var softplus(Var x, const std::string& name) { return eltwise(x, "softplus", {ops::EltwiseKind::softplus}, name); }
Var scale(Var x, float factor, float offset, const std::string& name) {
  return eltwise(x, "scale", {ops::EltwiseKind::linear, factor, offset}, name);
}
Var abs(Var x, const std::string& name) { return eltwise(x, "abs", {ops::EltwiseKind::abs}, name); }
Var exp(Var x, const std::string& name) { return eltwise(x, "exp", {ops::EltwiseKind::exp}, name); }
Var log(Var x, const std::string& name) { return eltwise(x, "log", {ops::EltwiseKind::log}, name); }
Var power(Var x, float exponent, const std::string& name) {
  return eltwise(x, "power", {ops::EltwiseKind::power, exponent}, name);
}

}  // namespace keelson
