#include "engine/ops/pixel_loss.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/philox.hpp"
#include "engine/layers/layers.hpp"
#include "engine/layers/loss.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

class PixelLossLayer : public Layer {
 public:
  explicit PixelLossLayer(ops::PixelLossParams params) : params_(std::move(params)) {}

  std::string kind() const override { return "pixel_cross_entropy"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape &prediction = srcs[0], &target = srcs[1];
    if (prediction.shape.rank() < 3 || prediction.batch_axis != 0)
      refuse("the cross entropy of pixels takes logits of shape (N, classes, spatial...), not {}",
             to_string(prediction.shape));
    const Shape wanted = ops::PixelLossDesc{params_, TensorDesc::plain(prediction.shape)}.target_desc().shape;
    if (target.dtype != DType::s32 || !(target.shape == wanted))
      refuse("the cross entropy of pixels takes one s32 class number per pixel, {}, as its target, not {} {}",
             to_string(wanted), to_string(target.shape), to_string(target.dtype));
    check_params(prediction.shape[1]);
    return {{1}, DType::f64, -1};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    TensorDesc prediction = p.src(0);
    prediction.dtype = DType::f32;
    if (!prediction.layout.is_strided()) prediction.layout = Layout::channels_last(prediction.shape);
    const std::shared_ptr<ops::PixelLoss> op =
        p.make(ops::PixelLossDesc{params_, prediction, p.training(), philox::stream_of(p.node().name)});
    return plan_loss(p, op, prediction);
  }

  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("a loss is only for training and evaluation"); }

 private:
  void check_params(std::int64_t classes) const {
    const auto& w = params_.class_weights;
    if (!w.empty() && static_cast<std::int64_t>(w.size()) != classes)
      refuse("{} class weights were given for {} classes", w.size(), classes);
    if (const auto bad = std::find_if(w.begin(), w.end(), [](float x) { return !(x >= 0) || std::isinf(x); });
        bad != w.end())
      refuse("the weight of class {} is {}, expected a finite number from 0 on", bad - w.begin(), *bad);
    if (params_.focal_gamma != 0 && !(params_.focal_gamma >= 1))
      refuse("focal_gamma is {}, expected 0 or at least 1", params_.focal_gamma);
    if (!(params_.sampled_pixels >= 0))
      refuse("sampled_pixels is {}, expected a number from 0 on", params_.sampled_pixels);
  }

  ops::PixelLossParams params_;
};

}  // namespace

Var pixel_cross_entropy(Var logits, Var target, const ops::PixelLossParams& params, const std::string& name) {
  const Var v = logits.graph->add(std::make_shared<PixelLossLayer>(params), {logits, target}, name);
  logits.graph->set_loss(v);
  return v;
}

}  // namespace keelson
