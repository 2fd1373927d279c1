#include "backends/kokkos/elementwise/strided_copy.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosReorder : public Reorder {
 public:
  explicit KokkosReorder(const ReorderDesc& d) : desc_(d), plan_(plan_copy(d.src.shape, d.src.layout, d.dst.layout)) {}
  Layout layout(Verb, Role r) const override { return r == Role::dst ? desc_.dst.layout : desc_.src.layout; }
  std::string name(Verb) const override { return plan_.column.extent == 1 ? "runs" : "transpose"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(desc_.src.used_bytes() + desc_.dst.used_bytes())}; }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst, workspace] = args;
    const auto from = desc_.src.dtype, to = desc_.dst.dtype;
    if (from == DType::s32) return copy<std::int32_t, std::int32_t>(src, dst);
    if (from == DType::u8) return copy<std::uint8_t, std::uint8_t>(src, dst);
    if (from == DType::f64 && to == DType::f64) return copy<double, double>(src, dst);
    if (from == DType::f64) return copy<double, float>(src, dst);
    if (to == DType::f64) return copy<float, double>(src, dst);
    with_type(from, [&](auto x) { with_type(to, [&](auto y) { copy<decltype(x), decltype(y)>(src, dst); }); });
  }

 private:
  template <class From, class To>
  void copy(const Tensor& src, const Tensor& dst) const {
    copy_strided("keelson::reorder::forward", plan_, src.data<From>(), dst.data<To>());
  }

  ReorderDesc desc_;
  CopyPlan plan_;
};

bool converts(DType from, DType to) {
  if (from == to || (is_value_type(from) && is_value_type(to))) return true;
  return (from == DType::f32 && to == DType::f64) || (from == DType::f64 && to == DType::f32);
}

}  // namespace

Expected<Reorder> make(const ReorderDesc& d) {
  if (!(d.src.shape == d.dst.shape))
    return fmt::format("src {} and dst {} differ in shape", to_string(d.src.shape), to_string(d.dst.shape));
  for (const auto* t : {&d.src, &d.dst})
    if (!t->layout.is_strided()) return fmt::format("the layout {} is not strided", t->layout.to_string());
  if (!converts(d.src.dtype, d.dst.dtype))
    return fmt::format("no conversion from {} to {}", to_string(d.src.dtype), to_string(d.dst.dtype));
  return std::unique_ptr<Reorder>(std::make_unique<KokkosReorder>(d));
}

}  // namespace keelson::kokkos
