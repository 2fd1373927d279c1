#include "engine/layers/loss.hpp"

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

/// (rows, 2): what the softmax of all classes needs to know of a part of the classes.
class ClassSumsLayer : public Layer {
 public:
  std::string kind() const override { return "class_sums"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    return {{srcs[0].shape[0], 2}, DType::f32, srcs[0].batch_axis};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const ops::ClassSumsDesc d{TensorDesc::plain(p.src(0).shape)};
    const std::shared_ptr<ops::ClassSums> op = p.make(d);
    const BufferId src = p.converted(p.src_buffer(0), d.prediction.layout, d.prediction.dtype);
    p.forward(op, {.prediction = src, .sums = p.new_dst(d.sums_desc().layout)});
    return nullptr;
  }

  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("sums of classes are parts of a loss"); }
};

class LossLayer : public Layer {
 public:
  /// `part`: the classes of the prediction, if several ranks have parts of the classes.
  explicit LossLayer(ops::LossParams params, ops::ClassPart part = {}) : params_(params), part_(part) {}
  /// `weighs`: the last source is the importance of the samples.
  LossLayer(ops::LossParams params, bool weighs) : params_(params), weighs_(weighs) {}

  std::string kind() const override { return std::string(ops::to_string(params_.kind)); }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape &prediction = srcs[0], &target = srcs[static_cast<std::size_t>(target_)];
    const bool classes = params_.kind == ops::LossKind::cross_entropy;
    if (prediction.shape.rank() != 2 || prediction.batch_axis != 0)
      refuse("a loss takes a prediction of shape (N, features), not {}: flatten() it first",
             to_string(prediction.shape));
    if (classes && (target.dtype != DType::s32 ||
                    !(target.shape == Shape{1} || target.shape == Shape{1, prediction.rows_per_sample()})))
      refuse("cross entropy takes one s32 class number per sample or per row as its target, not {} {}",
             to_string(target.shape), to_string(target.dtype));
    if (target_ != 0 && !classes &&
        !(target.shape.rank() == 2 && target.shape[0] == 1 &&
          prediction.shape[1] == target.shape[1] * params_.values_per_target()))
      refuse("the prediction has {} features but the target is {}{}", prediction.shape[1], to_string(target.shape),
             params_.values_per_target() == 1 ? "" : "; expected two for each: the means, then the spreads");
    if (const auto& last = srcs.back(); weighs_ && (last.shape != Shape{1} || last.dtype != DType::f32))
      refuse("the importance of samples is {} {}; expected one f32 number for each sample, shape ()",
             to_string(last.shape), to_string(last.dtype));
    return {{1}, DType::f64, -1};
  }

  std::optional<ChannelTerm> channel_term(std::span<const ValueShape> srcs, const Rows& channels,
                                          int parts) const override {
    if (params_.kind != ops::LossKind::cross_entropy || weighs_) return {};
    return ChannelTerm{std::make_shared<ClassSumsLayer>(),
                       std::make_shared<LossLayer>(params_, ops::ClassPart{channels.begin, srcs[0].shape[1], parts})};
  }

  std::optional<WholeNumbers> whole_numbers(std::span<const ValueShape> srcs) const override {
    if (params_.kind != ops::LossKind::cross_entropy) return {};
    return WholeNumbers{.src = 1, .count = srcs[0].shape[1], .minus_one_is_ignored = true};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const auto prediction = TensorDesc::plain(p.src(0).shape);
    const ops::LossDesc d{params_, prediction, target_ == 0 ? prediction : p.src(target_),
                          p.src_value(0).rows_per_sample(), part_};
    const std::shared_ptr<ops::Loss> op = p.make(d);
    if (part_.all == 0)
      return plan_loss(p, op, prediction, no_buffer, weighs_ ? p.src_buffer(target_ + 1) : no_buffer, target_);
    const BufferId sums = p.converted(p.src_buffer(2), d.class_sums_desc().layout, DType::f32);
    return plan_loss(p, op, prediction, sums);
  }

  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("a loss is only for training and evaluation"); }

 private:
  ops::LossParams params_;
  ops::ClassPart part_;
  bool weighs_ = false;
  int target_ = params_.kind == ops::LossKind::mean ? 0 : 1;  ///< the source that the prediction is compared with
};

}  // namespace

Var loss(Var prediction, Var target, const ops::LossParams& params, const std::string& name,
         std::optional<Var> importance) {
  if (params.label_smoothing < 0 || params.label_smoothing >= 1)
    refuse("label smoothing {}: expected 0, or a number above 0 and below 1", params.label_smoothing);
  if (params.label_smoothing > 0 && params.kind != ops::LossKind::cross_entropy)
    refuse("label smoothing with the loss {}: only cross_entropy has it", to_string(params.kind));
  std::vector<Var> srcs{prediction, target};
  if (importance) srcs.push_back(*importance);
  return prediction.graph->add_loss(std::make_shared<LossLayer>(params, importance.has_value()), srcs, name);
}

Var mean_loss(Var x, const std::string& name, std::optional<Var> importance) {
  std::vector<Var> srcs{x.shape().shape.rank() == 2 ? x : flatten(x)};
  if (importance) srcs.push_back(*importance);
  const ops::LossParams params{.kind = ops::LossKind::mean};
  return x.graph->add_loss(std::make_shared<LossLayer>(params, importance.has_value()), srcs, name);
}

}  // namespace keelson
