#include "engine/ops/transposed_conv.hpp"

#include "engine/layers/layers.hpp"
#include "engine/layers/weighted.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

class TransposedConvLayer : public Layer {
 public:
  explicit TransposedConvLayer(TransposedConvOptions options) : options_(std::move(options)) {}

  std::string kind() const override { return "transposed_conv"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.shape.rank() < 3)
      refuse("a transposed convolution takes (N, C, spatial...) values, but its input is {}", to_string(x.shape));
    return {ops::transposed_conv_dst_shape(x.shape, params(x.shape), options_.filters), x.dtype, x.batch_axis};
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override {
    const Shape& x = srcs[0].shape;
    Shape weights{x[1], options_.filters / options_.groups};
    for (auto k : params(x).kernel) weights.push_back(k);
    std::vector<ParameterSpec> specs{{"weights", weights, options_.weights_init}};
    if (options_.bias) specs.push_back({"bias", {options_.filters}, options_.bias_init});
    return specs;
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    return weighted_ties({.in = srcs[0].shape[1],
                          .out = options_.filters,
                          .groups = options_.groups,
                          .bias = options_.bias,
                          .in_dim = 0,
                          .out_dim = 1});
  }

  std::shared_ptr<const Layer> with_channels(std::span<const ValueShape> before, std::span<const ValueShape> now,
                                             std::int64_t channels) const override {
    auto layer = std::make_shared<TransposedConvLayer>(*this);
    layer->options_.filters = channels;
    layer->options_.groups = groups_with_channels(options_.groups, before[0].shape[1], now[0].shape[1]);
    return layer;
  }

  std::span<const FusionRule> fusion_rules() const override {
    static const FusionRule rules[] = {fusion_rule(&TransposedConvLayer::with_activation),
                                       fusion_rule(&TransposedConvLayer::with_batch_norm)};
    return rules;
  }

  std::optional<LayerPart> part(std::span<const ValueShape> srcs, int dim, const Rows& rows) const override {
    const Shape& x = srcs[0].shape;
    const int d = dim - 2;
    auto layer = std::make_shared<TransposedConvLayer>(*this);
    auto& p = layer->part_.emplace(params(x));
    const std::int64_t stride = p.stride[d], reach = p.dilation[d] * (p.kernel[d] - 1);
    const std::int64_t first = rows.begin + p.pad_begin[d], last = rows.end - 1 + p.pad_begin[d];
    const auto floor = [&](std::int64_t n) { return n >= 0 ? n / stride : -((stride - 1 - n) / stride); };
    // Rows beyond the edges are zeros, so that parts of equal size have equal descriptions. If a stride is longer
    // than a kernel, results between two kernels read nothing; a part begins at a kernel.
    const Rows reads{std::min(floor(first - reach + stride - 1), floor(first)), floor(last) + 1};
    p.pad_begin[d] = first - stride * reads.begin;
    const std::int64_t beyond = (reads.size() - 1) * stride + reach + 1 - p.pad_begin[d] - rows.size();
    p.pad_end[d] = std::max<std::int64_t>(beyond, 0);
    p.output_padding[d] = std::max<std::int64_t>(-beyond, 0);
    std::vector<std::int64_t> padding{p.pad_begin[d], p.pad_end[d], p.output_padding[d]};
    return LayerPart{reads, std::move(layer), std::move(padding)};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const auto f = forward_weighted(
        p, made_of(), p.dst_request(), [&](const TensorDesc& src, const TensorDesc& weights, DType result) {
          return ops::TransposedConvDesc{params(src.shape), src,
                                         weights,           p.dst_request(result),
                                         p.training(),      p.wants_diff_src(0),
                                         p.tf32(),          p.context().exact_convolutions()};
        });
    p.set_dst(f.y);
    return [f, has_bias = options_.bias, activation = activation_](BackwardBuilder& b) {
      const BufferId diff = activation_backward(b, activation, f.y, b.diff_dst());
      if (has_bias) bias_gradient(b, diff);
      backward_weighted(b, f, diff);
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const auto p = params(b.src_shape(0));
    auto attributes = onnx::window_attributes(p.kernel, p.stride, p.pad_begin, p.pad_end);
    attributes.push_back({"output_padding", onnx::integers_of(p.output_padding)});
    attributes.push_back({"dilations", onnx::integers_of(p.dilation)});
    attributes.push_back({"group", p.groups});
    std::vector<std::string> inputs{b.src(0), b.parameter("weights")};
    if (options_.bias) inputs.push_back(b.parameter("bias"));
    b.set_dst(b.op("ConvTranspose", inputs, std::move(attributes)));
  }

 private:
  std::shared_ptr<const Layer> with_activation(const EltwiseLayer& reader, const FusionPlace& at) const {
    if (!can_apply(reader.params(), activation_, at.training)) return nullptr;
    auto fused = std::make_shared<TransposedConvLayer>(*this);
    fused->activation_ = reader.params();
    return fused;
  }

  /// Not possible with groups: then no single dimension of the weights counts the result's channels.
  std::shared_ptr<const Layer> with_batch_norm(const BatchNormLayer& reader, const FusionPlace& at) const {
    if (norm_ || options_.groups > 1 || activation_.kind != ops::EltwiseKind::identity || !fold_pays(*this, at))
      return nullptr;
    auto fused = std::make_shared<TransposedConvLayer>(*this);
    fused->norm_ = {.epsilon = reader.options().epsilon, .axis = 1};
    return fused;
  }

  WeightedParameters made_of() const { return {options_.bias, norm_}; }

  ops::TransposedConvParams params(const Shape& src) const {
    const int spatial = src.rank() - 2;
    if (part_) return *part_;
    ops::TransposedConvParams p;
    p.kernel = options_.kernel.empty() ? Shape::filled(spatial, options_.size) : options_.kernel;
    if (p.kernel.rank() != spatial)
      refuse("a transposed convolution's kernel of {} dims on a value of {} spatial dims", p.kernel.rank(), spatial);
    p.stride = Shape::filled(spatial, options_.stride);
    p.dilation = Shape::filled(spatial, options_.dilation);
    p.pad_begin = p.pad_end = p.output_padding = Shape::filled(spatial, 0);
    if (options_.padding == Padding::same) ops::set_same_padding(p);
    if (options_.padding == Padding::given) {
      p.pad_begin = options_.pad_begin;
      p.pad_end = options_.pad_end.empty() ? options_.pad_begin : options_.pad_end;
      if (p.pad_begin.rank() != spatial || p.pad_end.rank() != spatial)
        refuse("a transposed convolution with given padding needs {} pads, one per spatial dim", spatial);
      p.output_padding = Shape::filled(spatial, options_.output_padding);
    }
    p.groups = options_.groups;
    p.bias = made_of().adds();
    p.activation = activation_;
    return p;
  }

  TransposedConvOptions options_;
  std::optional<FoldedBatchNorm> norm_;
  ops::EltwiseParams activation_;
  std::optional<ops::TransposedConvParams> part_;  ///< of a layer that computes a part
};

}  // namespace

Var transposed_conv(Var x, const TransposedConvOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<TransposedConvLayer>(options), {x}, name);
}

}  // namespace keelson
