#include "engine/layers/weighted.hpp"

#include "engine/ops/batch_norm.hpp"
#include "engine/ops/bias_gradient.hpp"

namespace keelson {

bool fold_pays(const Layer& layer, const FusionPlace& at) {
  constexpr double result_per_weight = 4;
  if (at.training) return false;
  double weights = 0;
  for (const ParameterSpec& p : layer.parameters(at.srcs)) weights += static_cast<double>(p.shape.elements());
  return static_cast<double>(at.batch) * static_cast<double>(at.between.shape.elements()) >=
         result_per_weight * weights;
}

WeightsAndBias weights_and_bias(ForwardBuilder& p, const WeightedParameters& of, const Layout& layout, DType type) {
  const Shape shape = p.parameter("weights").held_shape();
  const Layout folded = layout.is_strided() ? layout : Layout::plain(shape);
  const BufferId weights = of.norm ? p.parameter_in("weights", folded) : p.parameter_in("weights", layout, type);
  const BufferId bias = of.bias ? p.parameter_in("bias", Layout::any()) : no_buffer;
  if (!of.norm) return {weights, bias};
  const ops::FoldBatchNormDesc desc{p.desc(weights), of.norm->axis, of.norm->epsilon};
  const auto channels = [&](const char* name) { return p.parameter_in(name, desc.channel_desc().layout); };
  const std::shared_ptr<ops::FoldBatchNorm> op = p.make(desc);
  const BufferId dst = p.new_buffer("folded weights", desc.weights);
  const BufferId dst_bias = p.new_buffer("folded bias", desc.channel_desc());
  p.forward(op,
            {.weights = weights,
             .bias = bias,
             .mean = channels("running_mean"),
             .variance = channels("running_variance"),
             .scale = channels("scale"),
             .shift = channels("shift"),
             .dst = dst,
             .dst_bias = dst_bias},
            "fold batch_norm");
  return {p.converted(dst, layout, type), dst_bias};
}

void bias_gradient(BackwardBuilder& b, BufferId diff) {
  // A slice is copied, since sums are slow if rows have gaps. The gradient of the source mostly reads the copy, too.
  const TensorDesc d = b.desc(diff);
  diff = b.in_layout(diff, d.layout.is_strided() ? d.layout.without_gaps(d.shape) : Layout::channels_last(d.shape));
  const std::shared_ptr<ops::BiasGradient> op = b.make(ops::BiasGradientDesc{b.desc(diff)});
  b.backward_weights(op, {.diff_dst = diff, .diff_bias = b.new_gradient("bias", Layout::any())}, "bias");
  b.finish_gradients();
}

std::vector<ChannelTie> weighted_ties(const WeightedChannels& c) {
  using Place = TiedPlace;
  if (c.groups == 1) {
    ChannelTie made{c.out, {Place::of_dst(), Place::makes("weights", c.out_dim)}};
    if (c.bias) made.places.push_back(Place::makes("bias", 0));
    return {{c.in, {Place::of_src(), Place::multiplies("weights", c.in_dim)}}, made};
  }
  const std::int64_t in = c.in / c.groups, out = c.out / c.groups;  // of a group
  ChannelTie group{
      c.groups,
      {Place::of_src(0, 1, in), Place::of_dst(1, out), Place::makes("weights", 0, 1, c.in_dim == 0 ? in : out)}};
  if (c.bias) group.places.push_back(Place::makes("bias", 0, 1, out));
  return {group};
}

std::int64_t groups_with_channels(std::int64_t groups, std::int64_t before, std::int64_t now) {
  return groups == 1 ? 1 : now / (before / groups);
}

}  // namespace keelson
