#pragma once

#include "engine/graph/node_builder.hpp"

namespace keelson {

/// A convolution and the max pooling behind it, tile by tile along the first spatial dim: each tile of the
/// convolution's result is pooled while it still lies in cache, and only one tile of it is ever in memory. Made of the
/// backends' own primitives for the depth tiles' shapes.
class DepthTiledConv : public ops::Primitive {
 public:
  /// Null where it does not pay or cannot be done: a result that fits the caches anyway, a stride or dilation along the
  /// first dim, overlapping windows, layouts other than channels-last. `conv.src` and `conv.weights` have the dtype to
  /// compute in.
  static std::shared_ptr<DepthTiledConv> make(ForwardBuilder& p, const ops::ConvDesc& conv,
                                              const ops::PoolParams& pool);

  Layout layout(ops::Verb verb, ops::Role role) const override;
  std::string name(ops::Verb verb) const override;
  std::size_t scratch_bytes(ops::Verb verb) const override;
  std::size_t workspace_bytes() const override;
  ops::Cost cost(ops::Verb verb) const override;

  /// dst and workspace as those of the pooling.
  void forward(const Tensor& src, const Tensor& weights, const Tensor& bias, const Tensor& dst, const Tensor& workspace,
               const Tensor& scratch);

 private:
  struct Tile {
    std::int64_t first_src, first_dst;  ///< planes
    std::size_t kind;
  };
  /// The primitives of one shape.
  struct Kind {
    std::int64_t planes, pad_begin, pad_end;  ///< of the convolution's result, and zeros beside its source
    ops::ConvDesc conv;
    TensorDesc pooled;
    std::shared_ptr<ops::Conv> op;
    std::shared_ptr<ops::Pool> pool;
  };

  DepthTiledConv(const ops::ConvDesc& conv, const ops::PoolParams& pool);
  bool cut(int threads);
  bool make_kind(ForwardBuilder& p, Kind& kind, const Layout& weights);
  std::size_t tile_bytes() const;

  ops::ConvDesc conv_;
  ops::PoolParams pool_;
  TensorDesc pooled_;
  std::vector<Kind> kinds_;
  std::vector<Tile> tiles_;
};

}  // namespace keelson
