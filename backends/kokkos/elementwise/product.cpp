#include <algorithm>
#include <vector>

#include "backends/kokkos/elementwise/terms.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosProduct : public Product {
 public:
  explicit KokkosProduct(const ProductDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.dst.layout; }
  std::string name(Verb) const override { return "flat"; }
  Cost cost(Verb) const override {
    const double elements = static_cast<double>(desc_.dst.elements()), bytes = static_cast<double>(desc_.dst.bytes());
    return {elements * (desc_.count - 1), bytes * (desc_.count + 1)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    with_type(desc_.dst.dtype, [&]<class T>(T) { multiply<T>(args.srcs, args.dst); });
  }

 private:
  template <class T>
  void multiply(const std::vector<Tensor>& srcs, const Tensor& dst) const {
    auto* y = dst.data<T>();
    for (std::size_t done = 0; done < srcs.size();) {
      Terms<T> factors{};
      Index together = neighbours<T>(y);
      if (done > 0) factors.src[factors.count++] = y;
      while (factors.count < max_terms && done < srcs.size()) {
        const auto* x = srcs[done++].data<T>();
        together = std::min(together, neighbours<T>(x));
        factors.src[factors.count++] = x;
      }
      for_each_element("keelson::product::forward", dst, JoinTerms<T, Times>{factors, y}, together);
    }
  }

  ProductDesc desc_;
};

}  // namespace

Expected<Product> make(const ProductDesc& d) {
  if (d.count < 2) return fmt::format("a product of {} factors; it needs at least two", d.count);
  if (!is_value_type(d.dst.dtype)) return fmt::format("dst is {}, not f32, bf16 or f16", to_string(d.dst.dtype));
  if (d.dst.layout.is_any()) return std::string("dst has no layout yet; a product takes its producers' layout");
  return std::unique_ptr<Product>(std::make_unique<KokkosProduct>(d));
}

}  // namespace keelson::kokkos
