#pragma once

#include "engine/layers/layers.hpp"
#include "engine/plan/node_builder.hpp"

/// Parts that a pooling layer and a convolution with fused pooling share.
namespace keelson {

/// The op's parameters for the spatial dimensions of `src`.
ops::PoolParams pool_params(ops::PoolKind kind, const PoolOptions& options, const Shape& src);

/// How some rows of a pooled result are made.
struct PoolPart {
  Rows reads;           ///< rows of the source; windows end at the edges of the source
  PoolOptions options;  ///< of the pooling of these rows
  /// Before and behind the rows, as LayerPart::padding.
  std::vector<std::int64_t> padding(int dim) const { return {options.pad_begin[dim - 2], options.pad_end[dim - 2]}; }
};
/// For the rows `rows` of the result, along dimension `dim`, of a source of shape `src`.
PoolPart part_of_pool(const PoolOptions& options, const Shape& src, int dim, const Rows& rows);

/// A pooling layer. Convolutions fuse max pooling into themselves (fusion rules).
class PoolLayer : public Layer {
 public:
  /// A layer for sources with 1 to 3 spatial dimensions.
  PoolLayer(ops::PoolKind kind, const PoolOptions& options) : kind_(kind), options_(options) {}

  ops::PoolKind pool_kind() const { return kind_; }        ///< max or average
  const PoolOptions& options() const { return options_; }  ///< the options as given

  std::string kind() const override { return kind_ == ops::PoolKind::max ? "max_pool" : "average_pool"; }
  ValueShape infer(std::span<const ValueShape> srcs) const override;
  bool keeps_type() const override { return true; }
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override { return same_channels(srcs); }
  std::optional<LayerPart> part(std::span<const ValueShape> srcs, int dim, const Rows& rows) const override;
  std::optional<ChannelPart> channel_part(std::span<const ValueShape>, const Rows&) const override {
    return ChannelPart{.reads_all = false, .layer = nullptr};
  }
  BackwardFn plan(ForwardBuilder& p) const override;
  void to_onnx(OnnxBuilder& b) const override;

 private:
  ops::PoolKind kind_;
  PoolOptions options_;
};

/// A pooling call of the forward pass.
struct PlannedPool {
  std::shared_ptr<ops::Pool> pool;  ///< primitive
  /// Results of the forward call.
  BufferId workspace, dst;
  DType type;  ///< dtype of src, dst and their gradients
};

/// Emits the pooling of `src`; its result is the node's result.
PlannedPool plan_pool(ForwardBuilder& p, const ops::PoolParams& params, BufferId src);

/// Emits the gradient of the source, into new_diff_src(layout, dtype).
BufferId pool_backward(BackwardBuilder& b, const PlannedPool& forward, BufferId diff_dst,
                       const std::function<BufferId(const Layout&, DType)>& new_diff_src);

}  // namespace keelson
