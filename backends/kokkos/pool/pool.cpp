#include "engine/ops/pool.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/pool/pool_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosPool : public Pool {
 public:
  explicit KokkosPool(const PoolDesc& d)
      : desc_(d),
        src_(d.src.shape, d.src.layout),
        dst_(d.dst.shape, d.dst.layout),
        kernel_(three(d.params.kernel, 1)),
        stride_(three(d.params.stride, 1)),
        pad_(three(d.params.pad_begin, 0)),
        over_channels_(src_.stride_c == 1 && dst_.stride_c == 1 && src_.c > 1),
        narrow_(has_small_offsets(src_) && has_small_offsets(dst_)) {}

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
    with_type(desc_.src.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* x = src.data<T>();
      auto* y = dst.data<T>();
      void* chosen = workspace_bytes() > 0 ? workspace.raw() : nullptr;
      with_geometry([&](const auto& g) { forward(g, x, y, chosen); });
    });
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, workspace, diff_src, scratch] = args;
    with_type(desc_.src.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* y = diff_dst.data<T>();
      auto* x = diff_src.data<T>();
      const void* chosen = desc_.params.kind == PoolKind::max ? workspace.raw() : nullptr;
      with_geometry([&](const auto& g) {
        if (desc_.params.kind == PoolKind::average && !overlapping())
          return backward(g, y, static_cast<const NoChoice*>(nullptr), x);
        if constexpr (!std::decay_t<decltype(g)>::fixed)
          if (wide_index()) return backward(g, y, static_cast<const std::int32_t*>(chosen), x);
        backward(g, y, static_cast<const std::uint8_t*>(chosen), x);
      });
    });
  }

 private:
  bool wide_index() const { return desc_.params.kernel.elements() > 256; }

  bool overlapping() const {
    for (int d = 0; d < 3; ++d)
      if (stride_[d] < kernel_[d]) return true;
    return false;
  }

  /// Whether all offsets fit in 32 bits. Strides of dims with extent 1 count, too.
  static bool has_small_offsets(const Volume& v) {
    Index reach = 0;
    for (const auto& [extent, stride] : {std::pair{v.n, v.stride_n},
                                         {v.c, v.stride_c},
                                         {v.extent[0], v.stride[0]},
                                         {v.extent[1], v.stride[1]},
                                         {v.extent[2], v.stride[2]}}) {
      if (stride > INT32_MAX || extent > INT32_MAX) return false;
      reach += extent * stride;
    }
    return reach <= INT32_MAX;
  }

  /// Whether the windows are FixedWindow<..., depth, height, width>.
  bool has_windows(Index depth, Index height, Index width) const {
    const Index wanted[] = {depth, height, width};
    for (int d = 0; d < 3; ++d)
      if (kernel_[d] != wanted[d] || stride_[d] != wanted[d] || pad_[d] != 0 ||
          dst_.extent[d] * stride_[d] > src_.extent[d])
        return false;
    return true;
  }

  /// Calls use(PoolGeometry<...>): on a GPU with the narrowest indices, and with windows that are known at compile
  /// time, if possible. On a CPU neither pays: the loops over a run's lanes take the time.
  template <class Use>
  void with_geometry(const Use& use) const {
    using I = std::int32_t;
    if (runs_on_host || !narrow_) return use(geometry<Index>(any_window<Index>()));
    if constexpr (!runs_on_host) {
      if (has_windows(2, 2, 2)) return use(geometry<I>(FixedWindow<I, 2, 2, 2>{}));
      if (has_windows(1, 2, 2)) return use(geometry<I>(FixedWindow<I, 1, 2, 2>{}));
      use(geometry<I>(any_window<I>()));
    }
  }
  template <class I>
  AnyWindow<I> any_window() const {
    AnyWindow<I> w;
    for (int d = 0; d < 3; ++d) {
      w.extents[d] = static_cast<I>(kernel_[d]);
      w.strides[d] = static_cast<I>(stride_[d]);
      w.pads[d] = static_cast<I>(pad_[d]);
    }
    return w;
  }
  template <class I, class W>
  PoolGeometry<I, W> geometry(const W& window) const {
    return {PoolVolume<I>(src_), PoolVolume<I>(dst_), window, desc_.params.count_padding};
  }

  /// Processes `items` in runs as long as the kernels take them. On a GPU these are whole, aligned packs of channels.
  template <class T, class I, class W>
  PoolRuns<I, W> runs(const PoolGeometry<I, W>& g, const Volume& items, const void* x, const void* y,
                      const void* chosen) const {
    constexpr Index width = pool_lanes<T>;
    bool whole = runs_on_host || (over_channels_ && neighbours<T>(x, y, chosen) > 1);
    if constexpr (!runs_on_host)
      for (const auto* v : {&src_, &dst_}) {
        whole = whole && v->c % width == 0 && (v->n == 1 || v->stride_n % width == 0);
        for (int i = 0; i < 3; ++i) whole = whole && (v->extent[i] == 1 || v->stride[i] % width == 0);
      }
    return {g, over_channels_, PoolItems(items, over_channels_, whole ? width : 1)};
  }

  template <class Geometry, class T>
  void forward(const Geometry& g, const T* x, T* y, void* chosen) const {
    constexpr const char* label = "keelson::pool::forward";
    const auto r = runs<T>(g, dst_, x, y, chosen);
    using Runs = std::decay_t<decltype(r)>;
    if (desc_.params.kind == PoolKind::average) return launch(label, r.items.count, AverageForward<Runs, T>(r, x, y));
    if constexpr (!Geometry::fixed)
      if (wide_index())
        return launch(label, r.items.count,
                      MaxForward<Runs, T, std::int32_t>(r, x, y, static_cast<std::int32_t*>(chosen)));
    launch(label, r.items.count, MaxForward<Runs, T, std::uint8_t>(r, x, y, static_cast<std::uint8_t*>(chosen)));
  }

  template <class Geometry, class T, class Chosen>
  void backward(const Geometry& g, const T* y, const Chosen* chosen, T* x) const {
    constexpr const char* label = "keelson::pool::backward";
    const bool gather = overlapping();
    const auto r = runs<T>(g, gather ? src_ : dst_, x, y, chosen);
    using Runs = std::decay_t<decltype(r)>;
    if constexpr (!Geometry::fixed && !std::is_same_v<Chosen, NoChoice>)
      if (gather) return launch(label, r.items.count, BackwardGather<Runs, T, Chosen>(r, y, chosen, x));
    launch(label, r.items.count, BackwardCells<Runs, T, Chosen>(r, y, chosen, x));
  }

  PoolDesc desc_;
  Volume src_, dst_;
  Kokkos::Array<Index, 3> kernel_, stride_, pad_;
  bool over_channels_, narrow_;
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
  // dst has the layout of src, or channels-last if src has no layout.
  d.src.layout =
      chosen(d.src, d.dst.layout.is_strided() ? same_order(d.dst, d.src.shape) : Layout::channels_last(d.src.shape));
  d.dst.layout = chosen(d.dst, same_order(d.src, d.dst.shape));
  return std::unique_ptr<Pool>(std::make_unique<KokkosPool>(d));
}

}  // namespace keelson::kokkos
