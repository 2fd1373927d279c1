#include "backends/kokkos/eltwise_math.hpp"
#include "backends/kokkos/makers.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Traffic: 2 elements per element forward, 3 backward. In place is fine: every element is read before it is written.
template <class F>
struct Forward {
  EltwiseParams p;
  const float* src;
  float* dst;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    const EltwiseParams params = p;  // through `this`, a write to dst might change it, for all the compiler knows
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; ++i) dst[i] = F::value(params, src[i]);
  }
};

template <class F>
struct Backward {
  EltwiseParams p;
  const float *diff_dst, *saved;
  float* diff_src;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    const EltwiseParams params = p;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; ++i) diff_src[i] = diff_dst[i] * F::derivative(params, saved[i]);
  }
};

class KokkosEltwise : public Eltwise {
 public:
  explicit KokkosEltwise(const EltwiseDesc& d) : params_(d.params), desc_(d.src) {}

  Layout layout(Verb, Role) const override { return desc_.layout; }
  std::string name(Verb) const override { return "flat"; }
  Cost cost(Verb v) const override {
    const auto bytes = static_cast<double>(desc_.bytes());
    return {static_cast<double>(desc_.elements()), v == Verb::forward ? 2 * bytes : 3 * bytes};
  }

  void forward(const Tensor& src, const Tensor& dst) override {
    constexpr const char* label = "keelson::eltwise::forward";
    with_function(params_.kind, [&](auto f) {
      for_each_element(label, src, Forward<decltype(f)>{params_, src.data<float>(), dst.data<float>()});
    });
  }

  void backward(const Tensor& diff_dst, const Tensor& saved, const Tensor& diff_src) override {
    constexpr const char* label = "keelson::eltwise::backward";
    with_function(params_.kind, [&](auto f) {
      for_each_element(
          label, saved,
          Backward<decltype(f)>{params_, diff_dst.data<float>(), saved.data<float>(), diff_src.data<float>()});
    });
  }

 private:
  EltwiseParams params_;
  TensorDesc desc_;
};

}  // namespace

Made<Eltwise> make_eltwise(const EltwiseDesc& d) {
  if (d.src.dtype != DType::f32) return fmt::format("src is {}, not f32", to_string(d.src.dtype));
  if (d.src.layout.is_any()) return std::string("src has no layout yet; element-wise work adopts its producer's");
  const bool moves_zero =
      d.params.kind == EltwiseKind::sigmoid || (d.params.kind == EltwiseKind::linear && d.params.beta != 0);
  if (d.src.layout.is_opaque() && moves_zero)
    return fmt::format("{} would fill the padding of {}, which must stay zero", to_string(d.params),
                       d.src.layout.to_string());
  return std::unique_ptr<Eltwise>(std::make_unique<KokkosEltwise>(d));
}

}  // namespace keelson::kokkos
