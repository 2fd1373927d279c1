#include "engine/layers/batch_norm.hpp"

#include "engine/onnx/builder.hpp"
#include "engine/ops/batch_norm.hpp"
#include "engine/ops/combine.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

BufferId channel_values(ForwardBuilder& p, const std::string& name) {
  return p.parameter_in(name, Layout::plain(p.parameter(name).held_shape()));
}

void normalize(ForwardBuilder& p, const std::shared_ptr<ops::BatchNorm>& op, BufferId src, BufferId mean,
               BufferId variance) {
  const TensorDesc d = p.desc(src);
  const BufferId scale = channel_values(p, "scale"), shift = channel_values(p, "shift");
  p.forward(op, {.src = src,
                 .mean = mean,
                 .variance = variance,
                 .scale = scale,
                 .shift = shift,
                 .dst = p.new_dst(d.layout, d.dtype)});
}

/// Number of ranks over whose samples a batch's statistics are taken; 0: all. Each rank computes one term of the sums,
/// and the plan adds the terms up.
int group_of(const ForwardBuilder& p, const BatchNormOptions& options) {
  return options.ranks < p.ranks(ProcessGrid::Axis::data) ? options.ranks : 0;
}

/// The number of values of a channel in the smallest group. Only the last group may have fewer ranks.
std::int64_t fewest_values(const ForwardBuilder& p, const TensorDesc& src, int group) {
  const int ranks = p.ranks(ProcessGrid::Axis::data);
  const int smallest = group == 0 ? ranks : ranks % group == 0 ? group : ranks % group;
  const bool has_rows = p.computes_part() && p.sum_axes().contains(ProcessGrid::Axis::space);
  const int parts = has_rows ? p.ranks(ProcessGrid::Axis::space) : 1;
  return src.elements() / src.shape[1] * smallest * parts;
}

/// Plans the update of the running statistics. They are always taken over the samples of all ranks, even if the batch
/// is normalised over fewer, and change together with the parameters.
void plan_running(ForwardBuilder& p, const BatchNormOptions& options, BufferId sums) {
  const BufferId mean = channel_values(p, "running_mean"), variance = channel_values(p, "running_variance");
  std::shared_ptr<ops::RunningStatistics> op =
      p.make(ops::RunningStatisticsDesc{p.desc(mean).shape[0], options.momentum});
  p.at_update([=](NodeBuilder& u) {
    u.forward(op, {.sums = sums, .mean = mean, .variance = variance, .loss_scale = u.loss_scale()},
              "running statistics");
  });
}

}  // namespace

ValueShape BatchNormLayer::infer(std::span<const ValueShape> srcs) const {
  const ValueShape& x = srcs[0];
  if (x.shape.rank() < 2 || x.batch_axis != 0)
    refuse("batch normalization takes (N, channels, ...) values, but its input is {}", to_string(x.shape));
  return x;
}

std::vector<ParameterSpec> BatchNormLayer::parameters(std::span<const ValueShape> srcs) const {
  const Shape channels{srcs[0].shape[1]};
  return {{"scale", channels, options_.scale_init},
          {"shift", channels, options_.shift_init},
          {"running_mean", channels, Init::constant(0), ParameterKind::statistic},
          {"running_variance", channels, Init::constant(1), ParameterKind::statistic}};
}

std::vector<ChannelTie> BatchNormLayer::channel_ties(std::span<const ValueShape> srcs) const {
  auto ties = same_channels(srcs);
  for (const char* name : {"scale", "shift", "running_mean", "running_variance"})
    ties[0].places.push_back(TiedPlace::makes(name, 0));
  return ties;
}

std::optional<ChannelPart> BatchNormLayer::channel_part(std::span<const ValueShape>, const Rows&) const {
  ChannelPart part{.reads_all = false, .layer = nullptr};
  for (const char* name : {"scale", "shift", "running_mean", "running_variance"}) part.parameters[name] = 0;
  return part;
}

std::span<const FusionRule> BatchNormLayer::fusion_rules() const {
  static const FusionRule rules[] = {fusion_rule(&BatchNormLayer::with_relu)};
  return rules;
}

std::shared_ptr<const Layer> BatchNormLayer::with_relu(const EltwiseLayer& reader, const FusionPlace& at) const {
  if (!at.training || relu_ || reader.params().kind != ops::EltwiseKind::relu) return nullptr;
  return std::make_shared<BatchNormLayer>(options_, true);
}

BackwardFn BatchNormLayer::plan(ForwardBuilder& p) const {
  if (p.training()) return plan_training(p);
  TensorDesc d = p.src(0);
  d.dtype = p.type();
  std::shared_ptr<ops::BatchNorm> op = p.try_make(ops::BatchNormDesc{d, options_.epsilon});
  if (!op) op = p.make(ops::BatchNormDesc{d = d.with(p.strided_src(0)), options_.epsilon});
  const BufferId src = p.src_in(0, d.layout);
  normalize(p, op, src, channel_values(p, "running_mean"), channel_values(p, "running_variance"));
  return nullptr;
}

BackwardFn BatchNormLayer::plan_training(ForwardBuilder& p) const {
  const TensorDesc d{p.src(0).shape, p.type(), p.strided_src(0)};
  const int group = group_of(p, options_);
  if (fewest_values(p, d, group) < 2)
    refuse("{}: a batch of one value for each channel has no variance: give a larger batch", p.node().name);
  const ops::BatchNormSumsDesc sums_desc{d, p.batch()};
  const ops::BatchNormStatisticsDesc statistics_desc{d.shape[1]};
  const BufferId src = p.src_in(0, d.layout), weight = p.sample_weight();
  const TensorDesc d_sums = sums_desc.sums_desc();
  const BufferId all = p.new_buffer("sums", d_sums, Distribution::partial(p.sum_axes()));
  std::shared_ptr<ops::BatchNormSums> add_up = p.make(sums_desc);
  p.forward(add_up, {.src = src, .weight = weight, .sums = all}, "sums");
  plan_running(p, options_, all);
  BufferId sums = all;
  if (group > 0) {
    sums = p.new_buffer("sums of the group", d_sums, Distribution::partial_in_groups(group, p.sum_axes()));
    std::shared_ptr<ops::Reorder> copy = p.make(ops::ReorderDesc{d_sums, d_sums});
    p.forward(copy, {.src = all, .dst = sums}, "copy");
  }

  const BufferId mean = p.new_buffer("mean", statistics_desc.channel_desc());
  const BufferId variance = p.new_buffer("variance", statistics_desc.channel_desc());
  std::shared_ptr<ops::BatchNormStatistics> statistics = p.make(statistics_desc);
  p.forward(statistics, {.sums = sums, .mean = mean, .variance = variance}, "statistics");
  std::shared_ptr<ops::BatchNorm> op = p.make(ops::BatchNormDesc{d, options_.epsilon, relu_});
  normalize(p, op, src, mean, variance);

  return [=, epsilon = options_.epsilon, relu = relu_, samples = p.batch()](BackwardBuilder& b) {
    const ops::BatchNormBackwardDesc desc{d, samples, epsilon, relu};
    std::shared_ptr<ops::BatchNormBackward> backward = b.make(desc);
    const BufferId diff_dst = b.diff_dst_in(d.layout, d.dtype);
    const BufferId diff_sums =
        b.new_buffer("diff_sums", desc.diff_sums_desc(), Distribution::partial_in_groups(group, b.sum_axes()));
    const BufferId scale = b.parameter_in("scale", Layout::any());
    const BufferId shift = relu ? b.parameter_in("shift", Layout::any()) : no_buffer;
    const BufferId diff_scale = b.new_gradient("scale", Layout::any());
    const BufferId diff_shift = b.new_gradient("shift", Layout::any());
    b.backward_weights(backward, {.src = src,
                                  .diff_dst = diff_dst,
                                  .mean = mean,
                                  .variance = variance,
                                  .diff_sums = diff_sums,
                                  .diff_scale = diff_scale,
                                  .diff_shift = diff_shift,
                                  .scale = relu ? scale : no_buffer,
                                  .shift = shift});
    b.finish_gradients();
    if (!b.wants_diff_src(0)) return;
    b.backward_data(backward, {.src = src,
                               .diff_dst = diff_dst,
                               .weight = weight,
                               .mean = mean,
                               .variance = variance,
                               .scale = scale,
                               .sums = sums,
                               .diff_sums = diff_sums,
                               .diff_src = b.new_diff_src(0, d.layout, d.dtype),
                               .shift = shift});
  };
}

void BatchNormLayer::to_onnx(OnnxBuilder& b) const {
  b.set_dst(b.op("BatchNormalization",
                 {b.src(0), b.parameter("scale"), b.parameter("shift"), b.parameter("running_mean"),
                  b.parameter("running_variance")},
                 {{"epsilon", options_.epsilon}}));
}

Var batch_norm(Var x, const BatchNormOptions& options, const std::string& name) {
  if (!(options.momentum >= 0 && options.momentum <= 1))
    refuse("batch normalization with momentum {}: expected 0 to 1", options.momentum);
  if (options.ranks < 0)
    refuse("batch normalization over {} ranks: expected a number of ranks, or 0 for all", options.ranks);
  if (!(options.epsilon > 0)) refuse("batch normalization with epsilon {}: expected more than 0", options.epsilon);
  return x.graph->add(std::make_shared<BatchNormLayer>(options), {x}, name);
}

}  // namespace keelson
