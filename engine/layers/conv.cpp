#include "engine/layers/conv_max_pool.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

class ConvLayer : public Layer {
 public:
  explicit ConvLayer(ConvOptions options) : options_(std::move(options)) {}

  std::string kind() const override { return "conv"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.shape.rank() < 3)
      refuse("a convolution takes (N, C, spatial...) values, but its input is {}", to_string(x.shape));
    if (options_.groups < 1 || options_.filters < 1 || options_.filters % options_.groups != 0 ||
        x.shape[1] % options_.groups != 0)
      refuse("a convolution of {} channels to {} filters in {} groups: groups must divide both", x.shape[1],
             options_.filters, options_.groups);
    ValueShape y{ops::conv_dst_shape(x.shape, params(x.shape), options_.filters), x.dtype, x.batch_axis};
    if (pool_) y.shape = ops::pool_dst_shape(y.shape, pool_params(ops::PoolKind::max, *pool_, y.shape));
    return y;
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override {
    const Shape& x = srcs[0].shape;
    Shape weights{options_.filters, x[1] / options_.groups};
    for (auto k : params(x).kernel) weights.push_back(k);
    std::vector<ParameterSpec> specs{{"weights", weights, options_.weights_init}};
    if (options_.groups == 1) specs[0].product_inputs = weights.elements() / options_.filters + (options_.bias ? 1 : 0);
    if (options_.bias) specs.push_back({"bias", {options_.filters}, options_.bias_init});
    return specs;
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    return weighted_ties(
        {.in = srcs[0].shape[1], .out = options_.filters, .groups = options_.groups, .bias = options_.bias});
  }

  std::shared_ptr<const Layer> with_channels(std::span<const ValueShape> before, std::span<const ValueShape> now,
                                             std::int64_t channels) const override {
    auto layer = std::make_shared<ConvLayer>(*this);
    layer->options_.filters = channels;
    layer->options_.groups = groups_with_channels(options_.groups, before[0].shape[1], now[0].shape[1]);
    return layer;
  }

  /// Without a stride, and with zeros around the source. The identity has a 1 where the source element lies that has
  /// the place of the result's.
  std::optional<RepeatedLayer> repeated(const ValueShape& value) const override {
    const std::int64_t channels = value.shape[1];
    if (channels % options_.groups != 0) return {};
    auto layer = std::make_shared<ConvLayer>(options_);
    layer->options_.filters = channels;
    layer->options_.stride = 1;
    layer->options_.strides = {};
    layer->options_.padding = Padding::same;
    layer->options_.pad_begin = layer->options_.pad_end = {};
    RepeatedLayer repeated{layer};
    const auto p = layer->params(value.shape);
    std::int64_t elements = 1, centre = 0;
    for (int d = 0; d < p.kernel.rank(); ++d) {
      if (p.pad_begin[d] % p.dilation[d] != 0) return repeated;
      centre = centre * p.kernel[d] + p.pad_begin[d] / p.dilation[d];
      elements *= p.kernel[d];
    }
    repeated.identity = [channels, of_group = channels / options_.groups, elements, centre] {
      std::vector<float> weights(static_cast<std::size_t>(channels * of_group * elements));
      for (std::int64_t c = 0; c < channels; ++c)
        weights[static_cast<std::size_t>((c * of_group + c % of_group) * elements + centre)] = 1;
      return weights;
    };
    return repeated;
  }

  /// Zeros around the source are rows of the part's source, so that parts of equal size have equal descriptions.
  std::optional<LayerPart> part(std::span<const ValueShape> srcs, int dim, const Rows& rows) const override {
    const Shape& x = srcs[0].shape;
    const auto p = params(x);
    auto layer = std::make_shared<ConvLayer>(*this);
    layer->options_.padding = Padding::given;
    layer->options_.pad_begin = p.pad_begin;
    layer->options_.pad_end = p.pad_end;
    layer->options_.pad_begin[dim - 2] = layer->options_.pad_end[dim - 2] = 0;
    Rows made = rows;  // of the convolution
    std::vector<std::int64_t> padding;
    if (pool_) {
      const PoolPart pool = part_of_pool(*pool_, ops::conv_dst_shape(x, p, options_.filters), dim, rows);
      made = pool.reads;
      layer->pool_ = pool.options;
      padding = pool.padding(dim);
    }
    const std::int64_t stride = p.stride[dim - 2], begin = made.begin * stride - p.pad_begin[dim - 2];
    const std::int64_t reach = p.dilation[dim - 2] * (p.kernel[dim - 2] - 1);
    return LayerPart{{begin, begin + (made.size() - 1) * stride + reach + 1}, std::move(layer), std::move(padding)};
  }

  std::optional<ChannelPart> channel_part(std::span<const ValueShape> srcs, const Rows& channels) const override {
    const bool own_channels = options_.groups == options_.filters && srcs[0].shape[1] == options_.filters;
    if (options_.groups > 1 && !own_channels) return {};
    auto layer = std::make_shared<ConvLayer>(*this);
    layer->options_.filters = channels.size();
    if (options_.groups > 1) layer->options_.groups = channels.size();
    ChannelPart part{options_.groups == 1, std::move(layer), {{"weights", 0}}};
    if (options_.bias) part.parameters["bias"] = 0;
    if (norm_)
      for (const char* name : {"scale", "shift", "running_mean", "running_variance"}) part.parameters[name] = 0;
    return part;
  }

  bool reads_gaps() const override { return !pool_; }

  std::span<const FusionRule> fusion_rules() const override {
    static const FusionRule rules[] = {fusion_rule(&ConvLayer::with_activation),
                                       fusion_rule(&ConvLayer::with_batch_norm),
                                       fusion_rule(&ConvLayer::with_max_pool)};
    return rules;
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const auto describe = [&](const TensorDesc& src, const TensorDesc& weights, DType result) {
      const auto conv = params(src.shape);
      const TensorDesc dst{ops::conv_dst_shape(src.shape, conv, options_.filters), result, Layout::any()};
      ops::ConvDesc d{conv, src, weights, dst, p.training(), p.wants_diff_src(0), p.tf32()};
      d.exact = p.context().exact_convolutions();
      return d;
    };
    if (pool_) return plan_conv_max_pool(p, *pool_, describe(p.src(0), {}, DType::f32), made_of());
    return plan_weighted(p, made_of(), activation_, describe);
  }

  void to_onnx(OnnxBuilder& b) const override {
    const auto p = params(b.src_shape(0));
    auto attributes = onnx::window_attributes(p.kernel, p.stride, p.pad_begin, p.pad_end);
    attributes.push_back({"dilations", onnx::integers_of(p.dilation)});
    attributes.push_back({"group", p.groups});
    std::vector<std::string> inputs{b.src(0), b.parameter("weights")};
    if (options_.bias) inputs.push_back(b.parameter("bias"));
    b.set_dst(b.op("Conv", inputs, std::move(attributes)));
  }

 private:
  std::shared_ptr<const Layer> with_activation(const EltwiseLayer& reader, const FusionPlace& at) const {
    if (pool_ || !can_apply(reader.params(), activation_, at.training)) return nullptr;
    auto fused = std::make_shared<ConvLayer>(*this);
    fused->activation_ = reader.params();
    return fused;
  }

  std::shared_ptr<const Layer> with_batch_norm(const BatchNormLayer& reader, const FusionPlace& at) const {
    if (pool_ || norm_ || activation_.kind != ops::EltwiseKind::identity || !fold_pays(*this, at)) return nullptr;
    auto fused = std::make_shared<ConvLayer>(*this);
    fused->norm_ = {.epsilon = reader.options().epsilon, .axis = 0};
    return fused;
  }

  /// With pooling fused, neither pass needs the convolution's result in memory (plan_conv_max_pool()).
  std::shared_ptr<const Layer> with_max_pool(const PoolLayer& reader, const FusionPlace& /*at*/) const {
    if (pool_ || reader.pool_kind() != ops::PoolKind::max) return nullptr;
    auto fused = std::make_shared<ConvLayer>(*this);
    fused->pool_ = reader.options();
    return fused;
  }

  WeightedParameters made_of() const { return {options_.bias, norm_}; }

  ops::ConvParams params(const Shape& src) const {
    const int spatial = src.rank() - 2;
    ops::ConvParams p;
    p.kernel = options_.kernel.empty() ? Shape::filled(spatial, options_.size) : options_.kernel;
    if (p.kernel.rank() != spatial)
      refuse("a convolution kernel of {} dims on a value of {} spatial dims", p.kernel.rank(), spatial);
    p.stride = options_.strides.empty() ? Shape::filled(spatial, options_.stride) : options_.strides;
    if (p.stride.rank() != spatial)
      refuse("strides of a convolution in {} dims on a value of {} spatial dims", p.stride.rank(), spatial);
    p.dilation = Shape::filled(spatial, options_.dilation);
    p.pad_begin = p.pad_end = Shape::filled(spatial, 0);
    if (options_.padding == Padding::same) ops::set_same_padding(p, src);
    if (options_.padding == Padding::given) {
      p.pad_begin = options_.pad_begin;
      p.pad_end = options_.pad_end.empty() ? options_.pad_begin : options_.pad_end;
      if (p.pad_begin.rank() != spatial || p.pad_end.rank() != spatial)
        refuse("a convolution with given padding needs {} pads, one per spatial dim", spatial);
    }
    p.groups = options_.groups;
    p.bias = made_of().adds();
    p.activation = activation_;
    return p;
  }

  ConvOptions options_;
  std::optional<FoldedBatchNorm> norm_;
  ops::EltwiseParams activation_;
  std::optional<PoolOptions> pool_;
};

}  // namespace

Var conv(Var x, const ConvOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<ConvLayer>(options), {x}, name);
}

}  // namespace keelson
