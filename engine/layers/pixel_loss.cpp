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
  explicit PixelLossLayer(ops::PixelLossParams params, const ops::Part& part = {})
      : params_(std::move(params)), part_(part) {}

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

  std::optional<LayerPart> term(std::span<const ValueShape> srcs, int dim, const Rows& rows) const override {
    return LayerPart{
        rows, std::make_shared<PixelLossLayer>(params_, ops::Part{srcs[0].shape[dim], rows.begin}), {}, {dim, dim - 1}};
  }

  std::optional<WholeNumbers> whole_numbers(std::span<const ValueShape> srcs) const override {
    return WholeNumbers{.src = 1, .count = srcs[0].shape[1], .minus_one_is_ignored = true};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    TensorDesc prediction = p.src(0);
    prediction.dtype = DType::f32;
    if (!prediction.layout.is_strided()) prediction.layout = Layout::channels_last(prediction.shape);
    const ops::PixelLossDesc desc{params_, prediction, p.training(), philox::stream_of(p.node().name), part_};
    const std::shared_ptr<ops::PixelLoss> op = p.make(desc);
    return plan_loss(p, op, prediction, counts_of_all_parts(p, desc));
  }

  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("a loss is only for training and evaluation"); }

 private:
  /// The pixels of each class in the samples whose parts the ranks have; no_buffer if the op counts them.
  BufferId counts_of_all_parts(ForwardBuilder& p, const ops::PixelLossDesc& desc) const {
    if (part_.rows == 0 || !desc.counts_classes()) return no_buffer;
    const ops::PixelCountsDesc counts = desc.counts();
    const std::shared_ptr<ops::PixelCounts> op = p.make(counts);
    const BufferId sums = p.new_buffer("counts", counts.counts_desc(),
                                       Distribution::partial({ProcessGrid::Axis::space, ProcessGrid::Axis::channel}));
    p.forward(op, {.target = p.src_buffer(1), .counts = sums}, "counts");
    return sums;
  }

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
  ops::Part part_;
};

}  // namespace

Var pixel_cross_entropy(Var logits, Var target, const ops::PixelLossParams& params, const std::string& name) {
  return logits.graph->add_loss(std::make_shared<PixelLossLayer>(params), {logits, target}, name);
}

}  // namespace keelson
