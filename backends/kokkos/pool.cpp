#include "engine/ops/pool.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/pool_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosPool : public Pool {
 public:
  explicit KokkosPool(const PoolDesc& d)
      : desc_(d),
        geometry_{Volume(d.src.shape, d.src.layout), Volume(d.dst.shape, d.dst.layout), three(d.params.kernel, 1),
                  three(d.params.stride, 1),         three(d.params.pad_begin, 0),      d.params.count_padding} {
    over_channels_ = geometry_.src.stride_c == 1 && geometry_.dst.stride_c == 1 && geometry_.src.c > 1;
  }

  Layout layout(Verb, Role r) const override {
    return r == Role::dst || r == Role::diff_dst ? desc_.dst.layout : desc_.src.layout;
  }
  std::string name(Verb) const override { return over_channels_ ? "channel_runs" : "row_runs"; }
  std::size_t workspace_bytes() const override {
    if (!desc_.training || desc_.params.kind != PoolKind::max) return 0;
    return desc_.dst.layout.bytes(desc_.dst.shape, wide_index() ? DType::s32 : DType::u8);
  }
  Cost cost(Verb) const override {
    return {static_cast<double>(desc_.dst.elements() * desc_.params.kernel.elements()),
            static_cast<double>(desc_.src.bytes() + desc_.dst.bytes() + workspace_bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst, workspace] = args;
    with_type(desc_.src.dtype, [&](auto type) { forward<decltype(type)>(src, dst, workspace); });
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, workspace, diff_src, scratch] = args;
    with_type(desc_.src.dtype, [&](auto type) {
      using T = decltype(type);
      if (desc_.params.kind == PoolKind::average)
        spread<T, std::uint8_t>(diff_dst, nullptr, diff_src);
      else if (wide_index())
        spread<T>(diff_dst, static_cast<const std::int32_t*>(workspace.raw()), diff_src);
      else
        spread<T>(diff_dst, static_cast<const std::uint8_t*>(workspace.raw()), diff_src);
    });
  }

 private:
  bool wide_index() const { return desc_.params.kernel.elements() > 256; }

  bool overlapping() const {
    for (int d = 0; d < 3; ++d)
      if (geometry_.stride[d] < geometry_.kernel[d]) return true;
    return false;
  }

  /// Runs as long as the kernels take them: whole packs of channels on a GPU, where each begins aligned.
  template <class T>
  PoolRuns runs(const void* x, const void* y, const void* chosen) const {
    constexpr Index width = pool_lanes<T>;
    if constexpr (runs_on_host) return {geometry_, over_channels_, width};
    bool whole = over_channels_ && neighbours<T>(x, y, chosen) > 1;
    for (const auto* v : {&geometry_.src, &geometry_.dst}) {
      whole = whole && v->c % width == 0 && (v->n == 1 || v->stride_n % width == 0);
      for (int i = 0; i < 3; ++i) whole = whole && (v->extent[i] == 1 || v->stride[i] % width == 0);
    }
    return {geometry_, over_channels_, whole ? width : 1};
  }

  template <class T>
  void forward(const Tensor& src, const Tensor& dst, const Tensor& workspace) const {
    constexpr const char* label = "keelson::pool::forward";
    const auto* x = src.data<T>();
    auto* y = dst.data<T>();
    void* chosen = workspace_bytes() > 0 ? workspace.raw() : nullptr;
    const auto r = runs<T>(x, y, chosen);
    const Index count = PoolItems(geometry_.dst, r).count(geometry_.dst);
    if (desc_.params.kind == PoolKind::average)
      launch(label, count, AverageForward<T>(r, x, y));
    else if (wide_index())
      launch(label, count, MaxForward<T, std::int32_t>(r, x, y, static_cast<std::int32_t*>(chosen)));
    else
      launch(label, count, MaxForward<T, std::uint8_t>(r, x, y, static_cast<std::uint8_t*>(chosen)));
  }

  template <class T, class Chosen>
  void spread(const Tensor& diff_dst, const Chosen* chosen, const Tensor& diff_src) const {
    constexpr const char* label = "keelson::pool::backward";
    const auto* y = diff_dst.data<T>();
    auto* x = diff_src.data<T>();
    const auto r = runs<T>(x, y, chosen);
    if (overlapping())
      launch(label, PoolItems(geometry_.src, r).count(geometry_.src), BackwardGather<T, Chosen>(r, y, chosen, x));
    else
      launch(label, PoolItems(geometry_.dst, r).count(geometry_.dst), BackwardCells<T, Chosen>(r, y, chosen, x));
  }

  PoolDesc desc_;
  PoolGeometry geometry_;
  bool over_channels_;
};

}  // namespace

Expected<Pool> make(const PoolDesc& desc) {
  PoolDesc d = desc;
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  if (auto why = not_strided_values("dst", d.dst); !why.empty()) return why;
  if (d.src.dtype != d.dst.dtype)
    return fmt::format("src is {}, dst {}", to_string(d.src.dtype), to_string(d.dst.dtype));
  try {
    if (!(pool_dst_shape(d.src.shape, d.params) == d.dst.shape)) return "dst has shape " + to_string(d.dst.shape);
  } catch (const InputError& e) {
    return std::string(e.what());
  }
  // dst follows src; where nobody has a wish, channels last.
  d.src.layout =
      chosen(d.src, d.dst.layout.is_strided() ? same_order(d.dst, d.src.shape) : Layout::channels_last(d.src.shape));
  d.dst.layout = chosen(d.dst, same_order(d.src, d.dst.shape));
  return std::unique_ptr<Pool>(std::make_unique<KokkosPool>(d));
}

}  // namespace keelson::kokkos
