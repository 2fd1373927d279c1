#include "engine/ops/rms_norm.hpp"

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

class RmsNormLayer : public Layer {
 public:
  explicit RmsNormLayer(float epsilon) : epsilon_(epsilon) {}
  std::string kind() const override { return "rms_norm"; }
  bool keeps_type() const override { return true; }  // bf16 in, bf16 out
  ValueShape infer(std::span<const ValueShape> srcs) const override {
    if (srcs[0].shape.rank() != 2) refuse("rms_norm takes (N, features) values, not {}", to_string(srcs[0].shape));
    return srcs[0];
  }
  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override {
    return {{"scale", {srcs[0].shape[1]}, Init::constant(1)}};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const TensorDesc d = TensorDesc::plain(p.src(0).shape, p.type());
    std::shared_ptr<ops::RmsNorm> op = p.make(ops::RmsNormDesc{d, epsilon_});
    const BufferId src = p.src_in(0, d.layout);  // a reorder only if needed
    const BufferId scale = p.parameter_in("scale", op->layout(ops::Verb::forward, ops::Role::weights));
    p.forward(op, {.src = src, .scale = scale, .dst = p.new_dst(d.layout, d.dtype)});
    return [op, src, scale, d](BackwardBuilder& b) {
      const BufferId diff_dst = b.diff_dst_in(d.layout, d.dtype);
      b.backward_weights(op, {.diff_dst = diff_dst, .src = src, .diff_scale = b.new_gradient("scale", Layout::any())});
      b.finish_gradients();
      if (!b.wants_diff_src(0)) return;
      b.backward_data(
          op, {.diff_dst = diff_dst, .src = src, .scale = scale, .diff_src = b.new_diff_src(0, d.layout, d.dtype)});
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const std::string& x = b.src(0);
    const auto squares = b.op("Mul", {x, x});
    const auto mean = b.op("ReduceMean", {squares}, {{"axes", std::vector<std::int64_t>{1}}});
    const auto norm = b.op("Sqrt", {b.op("Add", {mean, b.scalar(epsilon_)})});
    b.set_dst(b.op("Mul", {b.op("Div", {x, norm}), b.parameter("scale")}));
  }

 private:
  float epsilon_;
};

}  // namespace

Var rms_norm(Var x, float epsilon, const std::string& name) {
  return x.graph->add(std::make_shared<RmsNormLayer>(epsilon), {x}, name);
}

}  // namespace keelson
