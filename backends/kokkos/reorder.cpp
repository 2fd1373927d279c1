#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/strided_copy.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosReorder : public Reorder {
 public:
  explicit KokkosReorder(const ReorderDesc& d) : desc_(d), plan_(plan_copy(d.src.shape, d.src.layout, d.dst.layout)) {}
  Layout layout(Verb, Role r) const override { return r == Role::dst ? desc_.dst.layout : desc_.src.layout; }
  std::string name(Verb) const override { return plan_.column.extent == 1 ? "runs" : "transpose"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(desc_.src.bytes() + desc_.dst.bytes())}; }

  void forward(const Tensor& src, const Tensor& dst, const Tensor&) override {
    constexpr const char* label = "keelson::reorder::forward";
    switch (desc_.src.dtype) {
      case DType::f32:
        if (desc_.dst.dtype == DType::f64) return copy_strided(label, plan_, src.data<float>(), dst.data<double>());
        return copy_strided(label, plan_, src.data<float>(), dst.data<float>());
      case DType::f64:
        if (desc_.dst.dtype == DType::f32) return copy_strided(label, plan_, src.data<double>(), dst.data<float>());
        return copy_strided(label, plan_, src.data<double>(), dst.data<double>());
      case DType::s32:
        return copy_strided(label, plan_, src.data<std::int32_t>(), dst.data<std::int32_t>());
      case DType::u8:
        return copy_strided(label, plan_, src.data<std::uint8_t>(), dst.data<std::uint8_t>());
      default:
        fail("reorder of {} was not declined", to_string(desc_.src.dtype));
    }
  }

 private:
  ReorderDesc desc_;
  CopyPlan plan_;
};

bool converts(DType from, DType to) {
  if (from == to) return from == DType::f32 || from == DType::f64 || from == DType::s32 || from == DType::u8;
  return (from == DType::f32 && to == DType::f64) || (from == DType::f64 && to == DType::f32);
}

}  // namespace

Made<Reorder> make_reorder(const ReorderDesc& d) {
  if (!(d.src.shape == d.dst.shape))
    return fmt::format("src {} and dst {} differ in shape", to_string(d.src.shape), to_string(d.dst.shape));
  for (const auto* t : {&d.src, &d.dst})
    if (!t->layout.is_strided()) return fmt::format("the layout {} is not strided", t->layout.to_string());
  if (!converts(d.src.dtype, d.dst.dtype))
    return fmt::format("no conversion from {} to {}", to_string(d.src.dtype), to_string(d.dst.dtype));
  return std::unique_ptr<Reorder>(std::make_unique<KokkosReorder>(d));
}

}  // namespace keelson::kokkos
