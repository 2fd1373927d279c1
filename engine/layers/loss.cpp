#include "engine/layers/loss.hpp"

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

class LossLayer : public Layer {
 public:
  explicit LossLayer(ops::LossParams params) : params_(params) {}

  std::string kind() const override { return std::string(ops::to_string(params_.kind)); }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape &prediction = srcs[0], &target = srcs[1];
    const bool classes = params_.kind == ops::LossKind::cross_entropy;
    if (prediction.shape.rank() != 2 || prediction.batch_axis != 0)
      refuse("a loss takes a prediction of shape (N, features), not {}: flatten() it first",
             to_string(prediction.shape));
    if (classes && (target.dtype != DType::s32 ||
                    !(target.shape == Shape{1} || target.shape == Shape{1, prediction.rows_per_sample()})))
      refuse("cross entropy takes one s32 class number per sample or per row as its target, not {} {}",
             to_string(target.shape), to_string(target.dtype));
    if (!classes && !(target.shape == Shape{1, prediction.shape[1]}))
      refuse("the prediction has {} features but the target is {}", prediction.shape[1], to_string(target.shape));
    return {{1}, DType::f64, -1};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const auto prediction = TensorDesc::plain(p.src(0).shape);
    const std::shared_ptr<ops::Loss> op =
        p.make(ops::LossDesc{params_, prediction, p.src(1), p.src_value(0).rows_per_sample()});
    return plan_loss(p, op, prediction);
  }

  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("a loss is only for training and evaluation"); }

 private:
  ops::LossParams params_;
};

}  // namespace

Var loss(Var prediction, Var target, const ops::LossParams& params, const std::string& name) {
  const Var v = prediction.graph->add(std::make_shared<LossLayer>(params), {prediction, target}, name);
  prediction.graph->set_loss(v);
  return v;
}

}  // namespace keelson
