#pragma once

#include "engine/layers/eltwise.hpp"
#include "engine/layers/layers.hpp"

namespace keelson {

/// Batch normalization. In plans without training, convolutions fuse this layer into themselves; in training, this
/// layer fuses a ReLU into itself, which saves passes over the values (fusion rules).
class BatchNormLayer : public Layer {
 public:
  /// A layer with these options.
  explicit BatchNormLayer(const BatchNormOptions& options, bool relu = false) : options_(options), relu_(relu) {}

  const BatchNormOptions& options() const { return options_; }  ///< the options as given

  std::string kind() const override { return "batch_norm"; }
  std::span<const FusionRule> fusion_rules() const override;
  bool keeps_type() const override { return true; }
  bool mixes_samples() const override { return true; }
  ValueShape infer(std::span<const ValueShape> srcs) const override;
  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override;
  /// The statistics of a channel are those of its own values.
  std::optional<ChannelPart> channel_part(std::span<const ValueShape> srcs, const Rows& channels) const override;
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override;
  std::optional<LayerPart> part(std::span<const ValueShape>, int, const Rows& rows) const override {
    return LayerPart{rows, nullptr};
  }
  BackwardFn plan(ForwardBuilder& p) const override;
  void to_onnx(OnnxBuilder& b) const override;

 private:
  std::shared_ptr<const Layer> with_relu(const EltwiseLayer& reader, const FusionPlace& at) const;
  BackwardFn plan_training(ForwardBuilder& p) const;

  BatchNormOptions options_;
  bool relu_;
};

}  // namespace keelson
