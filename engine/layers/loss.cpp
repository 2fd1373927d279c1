#include "engine/ops/loss.hpp"
#include "engine/layers/layers.hpp"
#include "engine/plan/node_builder.hpp"

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
    const Layout plain = Layout::plain(p.src(0).shape);
    const ops::LossDesc d{params_, TensorDesc::plain(p.src(0).shape), p.src(1), p.src_value(0).rows_per_sample()};
    std::shared_ptr<ops::Loss> loss = p.make(d);
    const BufferId prediction = p.converted(p.src_buffer(0), plain, DType::f32), target = p.src_buffer(1);
    p.set_dst(p.loss());
    const BufferId diff = p.wants_diff_src(0) ? p.new_buffer("diff_src0", d.prediction) : no_buffer;
    p.forward(loss, {.step_params = p.step_params(),
                     .prediction = prediction,
                     .target = target,
                     .weight = p.sample_weight(),
                     .loss = p.loss(),
                     .diff_prediction = diff,
                     .loss_scale = p.loss_scale()});
    if (diff == no_buffer) return nullptr;
    return [diff](BackwardBuilder& b) { b.set_diff_src(0, diff); };
  }

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
