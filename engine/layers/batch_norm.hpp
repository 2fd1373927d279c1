#pragma once

#include "engine/layers/layers.hpp"

namespace keelson {

/// Batch normalization. In plans without training, convolutions fuse this layer into themselves (fusion rules).
class BatchNormLayer : public Layer {
 public:
  /// A layer with these options.
  explicit BatchNormLayer(const BatchNormOptions& options) : options_(options) {}

  const BatchNormOptions& options() const { return options_; }  ///< the options as given

  std::string kind() const override { return "batch_norm"; }
  bool keeps_type() const override { return true; }
  bool mixes_samples() const override { return true; }
  ValueShape infer(std::span<const ValueShape> srcs) const override;
  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override;
  /// The statistics of a channel are those of its own values.
  std::optional<ChannelPart> channel_part(std::span<const ValueShape> srcs, const Rows& channels) const override;
  ChannelMaps map_channels(const ChannelChange& change) const override;
  std::optional<LayerPart> part(std::span<const ValueShape>, int, const Rows& rows) const override {
    return LayerPart{rows, nullptr};
  }
  BackwardFn plan(ForwardBuilder& p) const override;
  void to_onnx(OnnxBuilder& b) const override;

 private:
  BackwardFn plan_training(ForwardBuilder& p) const;

  BatchNormOptions options_;
};

}  // namespace keelson
