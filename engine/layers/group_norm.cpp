#include "engine/ops/group_norm.hpp"

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

class GroupNormLayer : public Layer {
 public:
  GroupNormLayer(std::string kind, std::int64_t groups, const GroupNormOptions& options)
      : kind_(std::move(kind)), groups_(groups), options_(options) {}
  std::string kind() const override { return kind_; }
  bool keeps_type() const override { return true; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const Shape& shape = srcs[0].shape;
    if (shape.rank() < 2) refuse("{} takes (N, C, ...) values, not {}", kind_, to_string(shape));
    if (groups_ < 1 || shape[1] % groups_ != 0)
      refuse("{} channels cannot be divided into {} groups of equal size", shape[1], groups_);
    return srcs[0];
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override {
    const Shape channels{srcs[0].shape[1]};
    return {{"scale", channels, options_.scale_init}, {"shift", channels, options_.shift_init}};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const Shape& shape = p.src(0).shape;
    const TensorDesc d{shape, p.type(), shape.rank() == 2 ? Layout::plain(shape) : Layout::channels_last(shape)};
    const ops::GroupNormDesc desc{d, groups_, options_.epsilon};
    std::shared_ptr<ops::GroupNorm> op = p.make(desc);
    const BufferId src = p.src_in(0, d.layout);
    const BufferId scale = p.parameter_in("scale", desc.channel_desc().layout);
    const BufferId shift = p.parameter_in("shift", desc.channel_desc().layout);
    const BufferId mean = p.new_buffer("mean", desc.group_desc()),
                   variance = p.new_buffer("variance", desc.group_desc());
    p.forward(op, {.src = src,
                   .scale = scale,
                   .shift = shift,
                   .dst = p.new_dst(d.layout, d.dtype),
                   .mean = mean,
                   .variance = variance});
    return [=](BackwardBuilder& b) {
      const BufferId diff_dst = b.diff_dst_in(d.layout, d.dtype);
      const BufferId diff_sums = b.new_buffer("diff_sums", desc.diff_sums_desc());
      const bool wanted = b.wants_diff_src(0), joined = wanted && op->joins_backward();
      const auto new_diff_src = [&] { return b.new_diff_src(0, d.layout, d.dtype); };
      b.backward_weights(op, {.diff_dst = diff_dst,
                              .src = src,
                              .scale = scale,
                              .mean = mean,
                              .variance = variance,
                              .diff_scale = b.new_gradient("scale", Layout::any()),
                              .diff_shift = b.new_gradient("shift", Layout::any()),
                              .diff_sums = diff_sums,
                              .diff_src = joined ? new_diff_src() : no_buffer});
      b.finish_gradients();
      if (!wanted || joined) return;
      b.backward_data(op, {.diff_dst = diff_dst,
                           .src = src,
                           .scale = scale,
                           .mean = mean,
                           .variance = variance,
                           .diff_sums = diff_sums,
                           .diff_src = new_diff_src()});
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const Shape& shape = b.src_shape(0);
    if (shape.rank() == 2 && groups_ == 1)
      return b.set_dst(b.op("LayerNormalization", {b.src(0), b.parameter("scale"), b.parameter("shift")},
                            {{"axis", std::int64_t{1}}, {"epsilon", options_.epsilon}}));
    // Opset 17 has no GroupNormalization: one channel of an instance normalization is one group.
    const Shape group{groups_};
    const auto constant = [&](const char* label, float value) {
      return b.made_of(label, group, [count = groups_, value](const Parameters&) {
        return std::vector<float>(static_cast<std::size_t>(count), value);
      });
    };
    const auto groups = b.op("Reshape", {b.src(0), b.rows_of({groups_, shape.elements() / shape[0] / groups_})});
    const auto normalized = b.op("InstanceNormalization", {groups, constant("one", 1), constant("zero", 0)},
                                 {{"epsilon", options_.epsilon}});
    const auto whole = b.op("Reshape", {normalized, b.rows_of(Shape(std::span(shape.begin() + 1, shape.end())))});
    std::vector<std::int64_t> per_channel(static_cast<std::size_t>(shape.rank() - 1), 1);
    per_channel[0] = shape[1];
    const auto values = [&](const char* name) { return b.op("Reshape", {b.parameter(name), b.integers(per_channel)}); };
    b.set_dst(b.op("Add", {b.op("Mul", {whole, values("scale")}), values("shift")}));
  }

 private:
  std::string kind_;
  std::int64_t groups_;
  GroupNormOptions options_;
};

Var normalized_groups(const char* kind, Var x, std::int64_t groups, const GroupNormOptions& options,
                      const std::string& name) {
  if (!(options.epsilon > 0)) refuse("{} with epsilon {}: expected more than 0", kind, options.epsilon);
  return x.graph->add(std::make_shared<GroupNormLayer>(kind, groups, options), {x}, name);
}

}  // namespace

Var group_norm(Var x, std::int64_t groups, const GroupNormOptions& options, const std::string& name) {
  return normalized_groups("group_norm", x, groups, options, name);
}

Var layer_norm(Var x, const GroupNormOptions& options, const std::string& name) {
  return normalized_groups("layer_norm", x, 1, options, name);
}

}  // namespace keelson
