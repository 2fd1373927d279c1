#pragma once

#include <string>
#include <utility>

#include "engine/graph/layer.hpp"
#include "engine/ops/eltwise.hpp"

namespace keelson {

/// An element-wise function. Convolution and dense layers fuse this layer into themselves (fusion rules).
class EltwiseLayer : public Layer {
 public:
  /// `kind`: as Layer::kind(), for example "relu".
  EltwiseLayer(std::string kind, const ops::EltwiseParams& params) : kind_(std::move(kind)), params_(params) {}

  const ops::EltwiseParams& params() const { return params_; }  ///< the function

  std::string kind() const override { return kind_; }
  ValueShape infer(std::span<const ValueShape> srcs) const override { return srcs[0]; }
  bool keeps_type() const override { return true; }
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override { return same_channels(srcs); }
  std::optional<LayerPart> part(std::span<const ValueShape>, int, const Rows& rows) const override {
    return LayerPart{rows, nullptr};
  }
  std::optional<ChannelPart> channel_part(std::span<const ValueShape>, const Rows&) const override {
    return ChannelPart{.reads_all = false, .layer = nullptr};
  }
  BackwardFn plan(ForwardBuilder& p) const override;
  void to_onnx(OnnxBuilder& b) const override;

 private:
  std::string kind_;
  ops::EltwiseParams params_;
};

}  // namespace keelson
