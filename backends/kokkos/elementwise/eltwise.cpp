#include "engine/ops/eltwise.hpp"
#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Traffic: 2 elements per element forward, 3 backward.
template <class F, class T>
struct ForwardKernel {
  EltwiseParams p;
  const T* src;
  T* dst;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    const EltwiseParams params = p;  // a copy, since the compiler must assume that a write to dst changes the member
    map_run(begin, end, [params](float x) { return F::value(params, x); }, dst, src);
  }
};

template <class F, class T>
struct BackwardKernel {
  EltwiseParams p;
  const T *diff_dst, *saved;
  T* diff_src;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    const EltwiseParams params = p;
    map_run(
        begin, end, [params](float dy, float s) { return dy * F::derivative(params, s); }, diff_src, diff_dst, saved);
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

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst] = args;
    with_type(desc_.dtype, [&](auto type) { apply<decltype(type)>(src, dst); });
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, saved, diff_src] = args;
    with_type(desc_.dtype, [&](auto type) { differentiate<decltype(type)>(diff_dst, saved, diff_src); });
  }

 private:
  template <class T>
  void apply(const Tensor& src, const Tensor& dst) const {
    const auto* x = src.data<T>();
    auto* y = dst.data<T>();
    with_function(params_.kind, [&](auto f) {
      for_each_element("keelson::eltwise::forward", src, ForwardKernel<decltype(f), T>{params_, x, y},
                       neighbours<T>(x, y));
    });
  }

  template <class T>
  void differentiate(const Tensor& diff_dst, const Tensor& saved, const Tensor& diff_src) const {
    const auto *dy = diff_dst.data<T>(), *s = saved.data<T>();
    auto* dx = diff_src.data<T>();
    with_function(params_.kind, [&](auto f) {
      for_each_element("keelson::eltwise::backward", saved, BackwardKernel<decltype(f), T>{params_, dy, s, dx},
                       neighbours<T>(dy, s, dx));
    });
  }

  EltwiseParams params_;
  TensorDesc desc_;
};

/// Whether f(0) is not 0, or the derivative there not finite.
bool moves_zero(const EltwiseParams& p) {
  switch (p.kind) {
    case EltwiseKind::sigmoid:
    case EltwiseKind::softplus:
    case EltwiseKind::exp:
    case EltwiseKind::log:
      return true;
    case EltwiseKind::linear:
      return p.beta != 0;
    case EltwiseKind::power:
      return p.alpha < 1;
    default:
      return false;
  }
}

}  // namespace

Expected<Eltwise> make(const EltwiseDesc& d) {
  if (!is_value_type(d.src.dtype)) return fmt::format("src is {}, not f32, bf16 or f16", to_string(d.src.dtype));
  if (d.src.layout.is_any()) return std::string("src has no layout yet; element-wise work takes its producer's layout");
  if (d.src.layout.is_opaque() && moves_zero(d.params))
    return fmt::format("{} would fill the padding of {}, which must stay zero", to_string(d.params),
                       d.src.layout.to_string());
  return std::unique_ptr<Eltwise>(std::make_unique<KokkosEltwise>(d));
}

}  // namespace keelson::kokkos
