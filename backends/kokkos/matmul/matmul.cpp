#include "engine/ops/matmul.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/matmul/gemm.hpp"
#include "backends/kokkos/matmul/packed_products.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosMatMul : public MatMul {
 public:
  explicit KokkosMatMul(const MatMulDesc& d)
      : desc_(d),
        gemm_(d.src.shape[0], d.weights.shape[1], d.src.shape[1], strides_of(d.src), strides_of(d.weights),
              strides_of(d.dst), d.uses) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return gemm_.name(); }
  bool is_packed() const { return gemm_.is_packed(); }
  std::size_t scratch_bytes(Verb) const override { return gemm_.scratch_bytes(); }
  Cost cost(Verb) const override {
    const auto elements = desc_.src.elements() + desc_.weights.elements() + desc_.dst.elements();
    return {matmul_flops(desc_), static_cast<double>(elements) * sizeof(float)};
  }

  std::size_t packed_bytes() const override { return gemm_.packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override {
    if (gemm_.packed_bytes() > 0) gemm_.pack(weights.data<float>(), static_cast<float*>(packed));
  }
  void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
               void* scratch) override {
    gemm_.run("keelson::matmul::forward", src.data<float>(), weights.data<float>(), nullptr, {}, dst.data<float>(),
              static_cast<float*>(scratch), static_cast<const float*>(packed));
  }

 private:
  MatMulDesc desc_;
  Gemm gemm_;
};

}  // namespace

Expected<MatMul> make(const MatMulDesc& desc) {
  MatMulDesc d = desc;
  if (d.compute != DType::f32) return fmt::format("multiplies f32 only, not {}", to_string(d.compute));
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
    if (t->shape.rank() != 2) return fmt::format("{} has shape {}, expected a matrix", name, to_string(t->shape));
    t->layout = chosen(*t, Layout::plain(t->shape));
  }
  const auto &s = d.src.shape, &w = d.weights.shape;
  if (s[1] != w[0] || !(d.dst.shape == Shape{s[0], w[1]}))
    return fmt::format("src {}, weights {} and dst {} do not fit together", to_string(s), to_string(w),
                       to_string(d.dst.shape));
  return std::unique_ptr<MatMul>(std::make_unique<KokkosMatMul>(d));
}

Expected<MatMul> make_packed_matmul(const MatMulDesc& desc, Verb) {
  auto made = make(desc);
  if (made.primitive && !static_cast<const KokkosMatMul&>(*made.primitive).is_packed())
    return std::string("the product is too small, or its weights are used again");
  return made;
}

}  // namespace keelson::kokkos
