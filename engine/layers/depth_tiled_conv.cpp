#include "engine/layers/depth_tiled_conv.hpp"

#include <algorithm>

#include "engine/base/align.hpp"

namespace keelson {

namespace {

using ops::Role;
using ops::Verb;

constexpr std::size_t cached_bytes = std::size_t{16} << 20;  ///< a result up to here is pooled as a whole

/// A tile stays in the threads' nearer caches, and gives each of them enough to do.
std::size_t tile_target(int threads) { return std::max(std::size_t{4} << 20, static_cast<std::size_t>(threads) << 20); }

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

/// `count` samples' planes from `plane` on, of a channels-last tensor.
Tensor part(const Tensor& whole, std::int64_t sample, std::int64_t plane, const TensorDesc& desc) {
  const auto bytes_of_plane = whole.bytes() / static_cast<std::size_t>(whole.shape()[0] * whole.shape()[2]);
  const auto planes = static_cast<std::size_t>(sample * whole.shape()[2] + plane);
  return Tensor(desc, static_cast<std::byte*>(whole.raw()) + planes * bytes_of_plane);
}

}  // namespace

DepthTiledConv::DepthTiledConv(const ops::ConvDesc& conv, const ops::PoolParams& pool) : conv_(conv), pool_(pool) {
  conv_.training = false;  // its backward verbs are others' work
  conv_.src.layout = Layout::channels_last(conv.src.shape);
  conv_.dst.layout = Layout::channels_last(conv.dst.shape);
  const Shape pooled = ops::pool_dst_shape(conv.dst.shape, pool);
  pooled_ = {pooled, conv.dst.dtype, Layout::channels_last(pooled)};
}

/// The depth tiles, as few shapes as there can be: with zeros at one end, the other, both, none, and a last short one.
bool DepthTiledConv::cut(int threads) {
  const auto& p = conv_.params;
  const std::int64_t window = pool_.kernel[0], windows = pooled_.shape[2];
  const auto plane_bytes = conv_.dst.bytes() / static_cast<std::size_t>(conv_.dst.shape[0] * conv_.dst.shape[2]);
  const auto per_tile =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(tile_target(threads) / plane_bytes) / window);
  if (per_tile >= windows) return false;
  for (std::int64_t first = 0; first < windows; first += per_tile) {
    const std::int64_t begin = first * window, end = std::min(first + per_tile, windows) * window;
    const std::int64_t src_begin = begin - p.pad_begin[0], src_end = end - p.pad_begin[0] + p.kernel[0] - 1;
    Kind kind{end - begin, std::max<std::int64_t>(0, -src_begin),
              std::max<std::int64_t>(0, src_end - conv_.src.shape[2])};
    auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) {
      return k.planes == kind.planes && k.pad_begin == kind.pad_begin && k.pad_end == kind.pad_end;
    });
    if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), kind);
    tiles_.push_back({std::max<std::int64_t>(0, src_begin), first, static_cast<std::size_t>(found - kinds_.begin())});
  }
  return true;
}

bool DepthTiledConv::make_kind(ForwardBuilder& p, Kind& k, const Layout& weights) {
  k.conv = conv_;
  k.conv.params.pad_begin[0] = k.pad_begin;
  k.conv.params.pad_end[0] = k.pad_end;
  const std::int64_t src_planes = k.planes + conv_.params.kernel[0] - 1 - k.pad_begin - k.pad_end;
  const auto shrink = [](TensorDesc& d, std::int64_t planes) {
    d.shape = with_planes(d.shape, 1, planes);
    d.layout = Layout::channels_last(d.shape);
  };
  shrink(k.conv.src, src_planes);
  shrink(k.conv.dst, k.planes);
  k.pooled = pooled_;
  shrink(k.pooled, k.planes / pool_.kernel[0]);
  const auto describe = [&](const TensorDesc& w) {
    ops::ConvDesc d = k.conv;
    d.weights = w;
    return d;
  };
  if (!weights.is_any() || conv_.weights.dtype != DType::f32)
    k.op = p.try_make(describe(conv_.weights.with(weights)));
  else
    k.op = p.make_with_weights("weights", describe);
  k.pool = p.try_make(ops::PoolDesc{pool_, k.conv.dst, k.pooled, p.training()});
  const auto argmax = p.training() ? static_cast<std::size_t>(k.pooled.elements()) : 0;
  return k.op && k.pool && k.pool->workspace_bytes() == argmax;
}

std::shared_ptr<DepthTiledConv> DepthTiledConv::make(ForwardBuilder& p, const ops::ConvDesc& conv,
                                                     const ops::PoolParams& pool) {
  if (!p.context().device().host_accessible() || !suits(conv, pool)) return nullptr;
  std::shared_ptr<DepthTiledConv> made(new DepthTiledConv(conv, pool));
  if (!made->cut(p.context().device().concurrency())) return nullptr;
  // The shape of most depth tiles chooses the layout of the weights.
  auto& kinds = made->kinds_;
  const auto most = made->tiles_[made->tiles_.size() / 2].kind;
  if (!made->make_kind(p, kinds[most], Layout::any())) return nullptr;
  const Layout weights = kinds[most].op->layout(Verb::forward, Role::weights);
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (i != most && (!made->make_kind(p, kinds[i], weights) || kinds[i].op->backend() != kinds[most].op->backend()))
      return nullptr;
  std::swap(kinds[0], kinds[most]);
  for (Tile& s : made->tiles_) s.kind = s.kind == most ? 0 : s.kind == 0 ? most : s.kind;
  made->set_backend(kinds[0].op->backend());
  return made;
}

Layout DepthTiledConv::layout(Verb verb, Role role) const {
  if (role == Role::src) return conv_.src.layout;
  if (role == Role::dst) return pooled_.layout;
  return kinds_[0].op->layout(verb, role);
}

std::string DepthTiledConv::name(Verb verb) const {
  return fmt::format("{} + {}, {} depth tiles", kinds_[0].op->name(verb), kinds_[0].pool->name(verb), tiles_.size());
}

std::size_t DepthTiledConv::tile_bytes() const {
  std::size_t most = 0;
  for (const Kind& k : kinds_) most = std::max(most, align64(k.conv.dst.bytes()));
  return most;
}

std::size_t DepthTiledConv::scratch_bytes(Verb verb) const {
  std::size_t most = 0;
  for (const Kind& k : kinds_) most = std::max(most, k.op->scratch_bytes(verb));
  return tile_bytes() + most;
}

std::size_t DepthTiledConv::workspace_bytes() const { return static_cast<std::size_t>(pooled_.elements()); }

ops::Cost DepthTiledConv::cost(Verb) const {
  return {ops::conv_flops(conv_),
          static_cast<double>(conv_.src.bytes() + pooled_.bytes()) +
              static_cast<double>(conv_.weights.elements()) * static_cast<double>(size_of(conv_.weights.dtype))};
}

void DepthTiledConv::forward(const Tensor& src, const Tensor& weights, const Tensor& bias, const Tensor& dst,
                             const Tensor& workspace, const Tensor& scratch) {
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  const auto rest = static_cast<std::int64_t>(scratch.bytes() - tile_bytes());
  const Tensor op_scratch = rest > 0 ? Tensor(TensorDesc::plain({rest}, DType::u8), memory + tile_bytes()) : Tensor();
  const TensorDesc argmax{pooled_.shape, DType::u8, pooled_.layout};
  for (std::int64_t n = 0; n < src.shape()[0]; ++n)
    for (const Tile& s : tiles_) {
      Kind& k = kinds_[s.kind];
      const Tensor tile(k.conv.dst, memory);
      k.op->forward(part(src, n, s.first_src, k.conv.src), weights, bias, tile, op_scratch);
      const Tensor chosen =
          workspace ? part(Tensor(argmax, workspace.raw()), n, s.first_dst,
                           TensorDesc::plain({static_cast<std::int64_t>(k.pool->workspace_bytes())}, DType::u8))
                    : Tensor();
      k.pool->forward(tile, part(dst, n, s.first_dst, k.pooled), chosen);
    }
}

}  // namespace keelson
