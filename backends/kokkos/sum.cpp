#include "backends/kokkos/common.hpp"
#include "backends/kokkos/makers.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr int max_terms = 8;  ///< of one pass; longer sums take several

struct Terms {
  const float* src[max_terms];
  int count;
};

/// dst may be the first term. Traffic: count + 1 elements per element.
struct AddTerms {
  Terms terms;
  float* dst;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    if (terms.count == 2) {
      const float *a = terms.src[0], *b = terms.src[1];
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index i = begin; i < end; ++i) dst[i] = a[i] + b[i];
      return;
    }
    for (Index i = begin; i < end; ++i) {
      float s = terms.src[0][i];
      for (int k = 1; k < terms.count; ++k) s += terms.src[k][i];
      dst[i] = s;
    }
  }
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

  void forward(const Tensor* srcs, const Tensor& dst) override {
    constexpr const char* label = "keelson::sum::forward";
    int done = 0;
    while (done < desc_.count) {
      Terms terms{};
      if (done > 0) terms.src[terms.count++] = dst.data<float>();
      while (terms.count < max_terms && done < desc_.count) terms.src[terms.count++] = srcs[done++].data<float>();
      for_each_element(label, dst, AddTerms{terms, dst.data<float>()});
    }
  }

 private:
  SumDesc desc_;
};

}  // namespace

Made<Sum> make_sum(const SumDesc& d) {
  if (d.src.dtype != DType::f32) return fmt::format("src is {}, not f32", to_string(d.src.dtype));
  if (d.src.layout.is_any()) return std::string("src has no layout yet; a sum adopts its producers'");
  if (d.count < 1) return std::string("a sum needs at least one term");
  return std::unique_ptr<Sum>(std::make_unique<KokkosSum>(d));
}

}  // namespace keelson::kokkos
