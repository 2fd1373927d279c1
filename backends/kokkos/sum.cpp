#include <algorithm>

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/values.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr int max_terms = 8;  ///< of one pass; longer sums take several

template <class T>
struct Terms {
  const T* src[max_terms];
  int count;
};

/// dst may be the first term. Traffic: count + 1 elements per element.
template <class T>
struct AddTerms {
  Terms<T> terms;
  T* dst;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    if (terms.count == 2)
      return map_run(begin, end, [](float a, float b) { return a + b; }, dst, terms.src[0], terms.src[1]);
    if constexpr (!runs_on_host)
      if (end - begin == pack_width<T>) return add<pack_width<T>>(begin);
    for (Index i = begin; i < end; ++i) add<1>(i);
  }

  template <int count>
  KOKKOS_FORCEINLINE_FUNCTION void add(Index at) const {
    float sum[count], term[count];
    load(terms.src[0] + at, sum);
    for (int k = 1; k < terms.count; ++k) {
      load(terms.src[k] + at, term);
      for (int l = 0; l < count; ++l) sum[l] += term[l];
    }
    store(dst + at, sum);
  }
};

struct AddDoubles {
  const double *a, *b;
  double* sum;
  KOKKOS_FUNCTION void operator()(Index i) const { sum[i] = a[i] + b[i]; }
};

class KokkosSum : public Sum {
 public:
  explicit KokkosSum(const SumDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.src.layout; }
  std::string name(Verb) const override { return "flat"; }
  Cost cost(Verb) const override {
    return {static_cast<double>(desc_.src.elements()) * (desc_.count - 1),
            static_cast<double>(desc_.src.bytes()) * (desc_.count + 1)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [srcs, dst] = args;
    if (desc_.src.dtype == DType::f64) return add_doubles(srcs, dst);
    with_type(desc_.src.dtype, [&](auto type) { add<decltype(type)>(srcs, dst); });
  }

 private:
  template <class T>
  void add(const std::vector<Tensor>& srcs, const Tensor& dst) const {
    auto* y = dst.data<T>();
    int done = 0;
    while (done < desc_.count) {
      Terms<T> terms{};
      Index together = neighbours<T>(y);
      if (done > 0) terms.src[terms.count++] = y;
      while (terms.count < max_terms && done < desc_.count) {
        const auto* x = srcs[done++].data<T>();
        together = std::min(together, neighbours<T>(x));
        terms.src[terms.count++] = x;
      }
      for_each_element("keelson::sum::forward", dst, AddTerms<T>{terms, y}, together);
    }
  }

  /// Term by term: doubles are few, as the losses of a step.
  void add_doubles(const std::vector<Tensor>& srcs, const Tensor& dst) const {
    auto* y = dst.data<double>();
    const auto* before = srcs[0].data<double>();
    for (int k = 1; k < desc_.count; ++k, before = y) {
      const auto* term = srcs[static_cast<std::size_t>(k)].data<double>();
      launch("keelson::sum::doubles", desc_.src.elements(), AddDoubles{before, term, y});
    }
  }

  SumDesc desc_;
};

}  // namespace

Expected<Sum> make(const SumDesc& d) {
  if (d.src.dtype == DType::f64 && d.count < 2) return std::string("a sum of f64 needs at least two terms");
  if (!is_value_type(d.src.dtype) && d.src.dtype != DType::f64)
    return fmt::format("src is {}, not f32, f64, bf16 or f16", to_string(d.src.dtype));
  if (d.src.layout.is_any()) return std::string("src has no layout yet; a sum adopts its producers'");
  if (d.count < 1) return std::string("a sum needs at least one term");
  return std::unique_ptr<Sum>(std::make_unique<KokkosSum>(d));
}

}  // namespace keelson::kokkos
