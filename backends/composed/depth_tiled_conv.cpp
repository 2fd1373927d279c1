#include "backends/composed/depth_tiled_conv.hpp"

#include <algorithm>

#include "engine/base/align.hpp"

namespace keelson::composed {

namespace {

using ops::ConvDesc;
using ops::Role;
using ops::Verb;

constexpr std::size_t cached_bytes = std::size_t{16} << 20;  ///< a result up to this size is pooled as a whole

Shape with_planes(Shape s, std::int64_t batch, std::int64_t planes) {
  s[0] = batch;
  s[2] = planes;
  return s;
}

bool suits(const ops::ConvDesc& c, const ops::PoolParams& pool) {
  const int spatial = c.params.kernel.rank();
  return spatial >= 2 && c.params.stride[0] == 1 && c.params.dilation[0] == 1 && pool.kernel[0] == pool.stride[0] &&
         pool.pad_begin[0] == 0 && pool.pad_end[0] == 0 &&
         static_cast<std::size_t>(c.dst.elements()) * sizeof(float) > cached_bytes;
}

/// `desc`'s planes from `plane` on, and samples from `sample` on, of a channels-last tensor.
Tensor part(const Tensor& whole, std::int64_t sample, std::int64_t plane, const TensorDesc& desc) {
  const auto bytes_of_plane = whole.bytes() / static_cast<std::size_t>(whole.shape()[0] * whole.shape()[2]);
  const auto planes = static_cast<std::size_t>(sample * whole.shape()[2] + plane);
  return Tensor(desc, static_cast<std::byte*>(whole.raw()) + planes * bytes_of_plane);
}

class DepthTiledConv final : public ops::ConvMaxPoolForward {
 public:
  DepthTiledConv(const ops::ConvMaxPoolForwardDesc& d, Context& context);

  /// The reason why the primitive cannot be made or does not pay; empty: it can.
  const std::string& unsupported() const { return unsupported_; }

  Layout layout(Verb verb, Role role) const override;
  std::string name(Verb verb) const override;
  std::string_view backend_of(Verb verb) const override { return kinds_[0].op->backend_of(verb); }
  std::size_t scratch_bytes(Verb verb) const override { return tile_bytes() + conv_scratch_bytes(verb); }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(pooled_.elements()); }
  ops::Cost cost(Verb verb) const override;
  void forward(const Forward<ops::Tensors>& args) override;

 private:
  struct Tile {
    std::int64_t first_src, first_dst;  ///< first planes of the tile
    std::size_t kind;
  };
  /// The primitives of tiles of one shape.
  struct Kind {
    std::int64_t planes, pad_begin, pad_end;  ///< planes of the convolution's result, and zero planes beside its source
    ConvDesc conv;
    TensorDesc pooled;
    std::unique_ptr<ops::Conv> op;
    std::unique_ptr<ops::Pool> pool;
  };

  bool cut(std::size_t target);
  bool make_kind(Kind& kind, const Layout& weights, Context& context);
  std::size_t tile_bytes() const;
  std::size_t conv_scratch_bytes(Verb verb) const;

  ConvDesc conv_;
  ops::PoolParams pool_;
  TensorDesc pooled_;
  bool training_;
  std::string unsupported_;
  std::vector<Kind> kinds_;
  std::vector<Tile> tiles_;
};

DepthTiledConv::DepthTiledConv(const ops::ConvMaxPoolForwardDesc& d, Context& context)
    : conv_(d.conv), pool_(d.pool), pooled_(d.dst), training_(d.training) {
  conv_.training = false;  // other primitives do the backward verbs
  conv_.src.layout = Layout::channels_last(conv_.src.shape);
  conv_.dst.layout = Layout::channels_last(conv_.dst.shape);
  pooled_.layout = Layout::channels_last(pooled_.shape);
  if (!cut(composed::tile_bytes(context.device().current_instance().concurrency()))) {
    unsupported_ = "the result is one tile";
    return;
  }
  // The shape of most tiles chooses the layout of the weights.
  const auto most = tiles_[tiles_.size() / 2].kind;
  if (!make_kind(kinds_[most], conv_.weights.layout, context)) return;
  const Layout weights = kinds_[most].op->layout(Verb::forward, Role::weights);
  for (std::size_t i = 0; i < kinds_.size(); ++i)
    if (i != most && !make_kind(kinds_[i], weights, context)) return;
  std::swap(kinds_[0], kinds_[most]);
  for (Tile& t : tiles_) t.kind = t.kind == most ? 0 : t.kind == 0 ? most : t.kind;
}

/// Cuts into tiles of as few shapes as possible: with zero planes before, after, on both sides or on no side, and a
/// shorter last tile.
bool DepthTiledConv::cut(std::size_t target) {
  const auto& p = conv_.params;
  const std::int64_t window = pool_.kernel[0], windows = pooled_.shape[2];
  const auto plane_bytes = conv_.dst.bytes() / static_cast<std::size_t>(conv_.dst.shape[0] * conv_.dst.shape[2]);
  const auto per_tile = std::max<std::int64_t>(1, static_cast<std::int64_t>(target / plane_bytes) / window);
  if (per_tile >= windows) return false;
  for (std::int64_t first = 0; first < windows; first += per_tile) {
    const std::int64_t begin = first * window, end = std::min(first + per_tile, windows) * window;
    const std::int64_t src_begin = begin - p.pad_begin[0], src_end = end - p.pad_begin[0] + p.kernel[0] - 1;
    Kind kind{end - begin, std::max<std::int64_t>(0, -src_begin),
              std::max<std::int64_t>(0, src_end - conv_.src.shape[2])};
    auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) {
      return k.planes == kind.planes && k.pad_begin == kind.pad_begin && k.pad_end == kind.pad_end;
    });
    if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), std::move(kind));
    tiles_.push_back({std::max<std::int64_t>(0, src_begin), first, static_cast<std::size_t>(found - kinds_.begin())});
  }
  return true;
}

bool DepthTiledConv::make_kind(Kind& k, const Layout& weights, Context& context) {
  k.conv = conv_;
  k.conv.params.pad_begin[0] = k.pad_begin;
  k.conv.params.pad_end[0] = k.pad_end;
  k.conv.weights.layout = weights;
  const auto shrink = [](TensorDesc& d, std::int64_t planes) {
    d.shape = with_planes(d.shape, 1, planes);
    d.layout = Layout::channels_last(d.shape);
  };
  shrink(k.conv.src, k.planes + conv_.params.kernel[0] - 1 - k.pad_begin - k.pad_end);
  shrink(k.conv.dst, k.planes);
  k.pooled = pooled_;
  shrink(k.pooled, k.planes / pool_.kernel[0]);
  auto conv = context.make_by_first(k.conv);
  if (!conv.primitive) {
    unsupported_ = conv.unsupported_reason;
    return false;
  }
  auto pool = context.make_by_first(ops::PoolDesc{pool_, k.conv.dst, k.pooled, training_});
  if (!pool.primitive) {
    unsupported_ = pool.unsupported_reason;
    return false;
  }
  k.op = std::move(conv.primitive);
  k.pool = std::move(pool.primitive);
  if (training_ && k.pool->workspace_bytes() != static_cast<std::size_t>(k.pooled.elements()))
    unsupported_ = "the pooling keeps no argmax indices of one byte";
  return unsupported_.empty();
}

Layout DepthTiledConv::layout(Verb verb, Role role) const {
  if (role == Role::src) return conv_.src.layout;
  if (role == Role::dst) return pooled_.layout;
  return kinds_[0].op->layout(verb, role);
}

std::string DepthTiledConv::name(Verb verb) const {
  // The name does not contain the number of tiles: it depends on the threads, and ranks with the same plan may have
  // different numbers of threads.
  return fmt::format("{} + {}, depth tiles", kinds_[0].op->name(verb), kinds_[0].pool->name(verb));
}

std::size_t DepthTiledConv::tile_bytes() const {
  std::size_t most = 0;
  for (const Kind& k : kinds_) most = std::max(most, align64(k.conv.dst.bytes()));
  return most;
}

std::size_t DepthTiledConv::conv_scratch_bytes(Verb verb) const {
  std::size_t most = 0;
  for (const Kind& k : kinds_) most = std::max(most, k.op->scratch_bytes(verb));
  return most;
}

ops::Cost DepthTiledConv::cost(Verb) const {
  return {ops::conv_flops(conv_),
          static_cast<double>(conv_.src.bytes() + pooled_.bytes()) +
              static_cast<double>(conv_.weights.elements()) * static_cast<double>(size_of(conv_.weights.dtype))};
}

void DepthTiledConv::forward(const Forward<ops::Tensors>& args) {
  const auto& [src, weights, bias, dst, workspace, scratch] = args;
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  const auto rest = static_cast<std::int64_t>(scratch.bytes() - tile_bytes());
  const Tensor op_scratch = rest > 0 ? Tensor(TensorDesc::plain({rest}, DType::u8), memory + tile_bytes()) : Tensor();
  const TensorDesc argmax{pooled_.shape, DType::u8, pooled_.layout};
  for (std::int64_t n = 0; n < src.shape()[0]; ++n)
    for (const Tile& s : tiles_) {
      Kind& k = kinds_[s.kind];
      const Tensor tile(k.conv.dst, memory);
      k.op->forward({part(src, n, s.first_src, k.conv.src), weights, bias, tile, op_scratch});
      const Tensor chosen =
          workspace ? part(Tensor(argmax, workspace.raw()), n, s.first_dst,
                           TensorDesc::plain({static_cast<std::int64_t>(k.pool->workspace_bytes())}, DType::u8))
                    : Tensor();
      k.pool->forward({tile, part(dst, n, s.first_dst, k.pooled), chosen});
    }
}

}  // namespace

std::size_t tile_bytes(int threads) { return std::max(std::size_t{4} << 20, static_cast<std::size_t>(threads) << 20); }

ops::Expected<ops::ConvMaxPoolForward> make_depth_tiled_conv(const ops::ConvMaxPoolForwardDesc& d, Context& context) {
  if (!suits(d.conv, d.pool)) return std::string("depth tiles do not pay here, or windows and strides forbid them");
  auto made = std::make_unique<DepthTiledConv>(d, context);
  if (!made->unsupported().empty()) return made->unsupported();
  return std::unique_ptr<ops::ConvMaxPoolForward>(std::move(made));
}

}  // namespace keelson::composed
