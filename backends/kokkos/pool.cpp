#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/pool_kernels.hpp"

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

  void forward(const Tensor& src, const Tensor& dst, const Tensor& workspace) override {
    constexpr const char* label = "keelson::pool::forward";
    const PoolWindows windows{geometry_, over_channels_};
    const Index count = PoolItems(geometry_.dst, over_channels_).count(geometry_.dst);
    const auto* x = src.data<float>();
    auto* y = dst.data<float>();
    void* chosen = workspace_bytes() > 0 ? workspace.raw() : nullptr;
    if (desc_.params.kind == PoolKind::average)
      launch(label, count, AverageForward(windows, x, y));
    else if (wide_index())
      launch(label, count, MaxForward<std::int32_t>(windows, x, y, static_cast<std::int32_t*>(chosen)));
    else
      launch(label, count, MaxForward<std::uint8_t>(windows, x, y, static_cast<std::uint8_t*>(chosen)));
  }

  void backward(const Tensor& diff_dst, const Tensor& workspace, const Tensor& diff_src, const Tensor&) override {
    if (desc_.params.kind == PoolKind::average)
      spread<std::uint8_t>(diff_dst, nullptr, diff_src);
    else if (wide_index())
      spread(diff_dst, static_cast<const std::int32_t*>(workspace.raw()), diff_src);
    else
      spread(diff_dst, static_cast<const std::uint8_t*>(workspace.raw()), diff_src);
  }

 private:
  bool wide_index() const { return desc_.params.kernel.elements() > 256; }

  bool overlapping() const {
    for (int d = 0; d < 3; ++d)
      if (geometry_.stride[d] < geometry_.kernel[d]) return true;
    return false;
  }

  template <class Chosen>
  void spread(const Tensor& diff_dst, const Chosen* chosen, const Tensor& diff_src) const {
    constexpr const char* label = "keelson::pool::backward";
    const auto* y = diff_dst.data<float>();
    auto* x = diff_src.data<float>();
    if (overlapping())
      launch(label, PoolItems(geometry_.src, over_channels_).count(geometry_.src),
             BackwardGather<Chosen>{geometry_, over_channels_, y, chosen, x});
    else
      launch(label, PoolItems(geometry_.dst, over_channels_).count(geometry_.dst),
             BackwardCells<Chosen>({geometry_, over_channels_}, y, chosen, x));
  }

  PoolDesc desc_;
  PoolGeometry geometry_;
  bool over_channels_;
};

}  // namespace

Made<Pool> make_pool(const PoolDesc& desc) {
  PoolDesc d = desc;
  if (auto why = not_strided_f32("src", d.src); !why.empty()) return why;
  if (auto why = not_strided_f32("dst", d.dst); !why.empty()) return why;
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
