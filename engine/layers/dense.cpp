#include "engine/ops/dense.hpp"
#include "engine/layers/layers.hpp"
#include "engine/layers/weighted.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

class DenseLayer : public Layer {
 public:
  explicit DenseLayer(DenseOptions options, ops::EltwiseParams activation = {})
      : options_(std::move(options)), activation_(activation) {}

  std::string kind() const override { return "dense"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.shape.rank() != 2)
      refuse(
          "a dense layer takes (N, features) values, but its input is {}: flatten() it first, or use conv() of size 1 "
          "for a dense layer on the channels of each position",
          to_string(x.shape));
    return {{x.shape[0], options_.features}, x.dtype, x.batch_axis};
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override {
    std::vector<ParameterSpec> specs{{"weights", {options_.features, srcs[0].shape[1]}, options_.weights_init}};
    specs[0].product_inputs = srcs[0].shape[1] + (options_.bias ? 1 : 0);
    if (options_.bias) specs.push_back({"bias", {options_.features}, options_.bias_init});
    return specs;
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    return weighted_ties({.in = srcs[0].shape[1], .out = options_.features, .bias = options_.bias});
  }

  std::shared_ptr<const Layer> with_channels(std::span<const ValueShape>, std::span<const ValueShape>,
                                             std::int64_t channels) const override {
    auto layer = std::make_shared<DenseLayer>(*this);
    layer->options_.features = channels;
    return layer;
  }

  std::optional<RepeatedLayer> repeated(const ValueShape& value) const override {
    const std::int64_t features = value.shape[1];
    DenseOptions options = options_;
    options.features = features;
    return RepeatedLayer{std::make_shared<DenseLayer>(options), [features] {
                           std::vector<float> weights(static_cast<std::size_t>(features * features));
                           for (std::int64_t f = 0; f < features; ++f)
                             weights[static_cast<std::size_t>(f * features + f)] = 1;
                           return weights;
                         }};
  }

  std::optional<ChannelPart> channel_part(std::span<const ValueShape>, const Rows& channels) const override {
    auto layer = std::make_shared<DenseLayer>(*this);
    layer->options_.features = channels.size();
    ChannelPart part{true, std::move(layer), {{"weights", 0}}};
    if (options_.bias) part.parameters["bias"] = 0;
    return part;
  }

  std::span<const FusionRule> fusion_rules() const override {
    static const FusionRule rules[] = {fusion_rule(&DenseLayer::with_activation)};
    return rules;
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    return plan_weighted(
        p, {options_.bias}, activation_, [&](const TensorDesc& src, const TensorDesc& weights, DType result) {
          return ops::DenseDesc{{options_.bias, activation_}, src,     weights, p.dst_request(result), p.training(),
                                p.wants_diff_src(0),          p.tf32()};
        });
  }

  void to_onnx(OnnxBuilder& b) const override {
    std::vector<std::string> inputs{b.src(0), b.parameter("weights")};
    if (options_.bias) inputs.push_back(b.parameter("bias"));
    b.set_dst(b.op("Gemm", inputs, {{"transB", std::int64_t{1}}}));
  }

 private:
  std::shared_ptr<const Layer> with_activation(const EltwiseLayer& reader, const FusionPlace& at) const {
    if (!can_apply(reader.params(), activation_, at.training)) return nullptr;
    return std::make_shared<DenseLayer>(options_, reader.params());
  }

  DenseOptions options_;
  ops::EltwiseParams activation_;
};

}  // namespace

Var dense(Var x, const DenseOptions& options, const std::string& name) {
  if (options.features < 1) refuse("a dense layer of {} features: expected at least 1", options.features);
  std::map<std::string, std::string> shared;
  if (!options.weights_of.empty()) shared["weights"] = options.weights_of + "/weights";
  return x.graph->add(std::make_shared<DenseLayer>(options), {x}, name, std::move(shared));
}

}  // namespace keelson
