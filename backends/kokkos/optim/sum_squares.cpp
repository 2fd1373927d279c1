#include "backends/kokkos/common/parallel_sum.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/update.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Blocks of a fixed size, each summed, then added in order: the result does not depend on the number of threads.
constexpr Index block = 8192;

void block_sums(const float* src, Index n, double* sums) {
  constexpr const char* label = "keelson::sum_squares::blocks";
  launch(
      label, ceil_div(n, block), KOKKOS_LAMBDA(Index b) {
        constexpr int lanes = 16;
        double lane[lanes] = {};
        const Index begin = b * block, end = begin + block < n ? begin + block : n;
        Index i = begin;
        for (; i + lanes <= end; i += lanes)
          for (int l = 0; l < lanes; ++l) lane[l] += static_cast<double>(src[i + l]) * static_cast<double>(src[i + l]);
        double sum = 0;
        for (; i < end; ++i) sum += static_cast<double>(src[i]) * static_cast<double>(src[i]);
        for (int l = 0; l < lanes; ++l) sum += lane[l];
        sums[b] = sum;
      });
}

struct Squares {
  const float* src;
  KOKKOS_FUNCTION double operator()(Index i) const { return static_cast<double>(src[i]) * static_cast<double>(src[i]); }
};

class KokkosSumSquares : public SumSquares {
 public:
  KokkosSumSquares(const SumSquaresDesc& d, Device& device)
      : desc_(d.src),
        index_(d.index),
        elements_(static_cast<Index>(d.src.bytes() / sizeof(float))),
        sums_(device.allocate(static_cast<std::size_t>(sums_wanted()) * sizeof(double), "sum_squares")) {}
  Layout layout(Verb, Role) const override { return desc_.layout; }
  std::string name(Verb) const override { return "blocked"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    return {2.0 * static_cast<double>(elements_), static_cast<double>(elements_) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, sums] = args;
    auto *parts = static_cast<double*>(sums_.get()), *result = sums.data<double>() + index_;
    if constexpr (runs_on_host) {
      block_sums(src.data<float>(), elements_, parts);
      sum_in_order("keelson::sum_squares::total", parts, ceil_div(elements_, block), result);
    } else {
      parallel_sum<true>("keelson::sum_squares::sums", Squares{src.data<float>()}, elements_, parts, result);
    }
  }

 private:
  Index sums_wanted() const { return runs_on_host ? ceil_div(elements_, block) : parallel_sum_scratch(elements_); }

  TensorDesc desc_;
  Index index_;
  Index elements_;
  std::shared_ptr<void> sums_;
};

}  // namespace

Expected<SumSquares> make(const SumSquaresDesc& d, Device& device) {
  if (d.src.dtype != DType::f32) return fmt::format("src is {}, not f32", to_string(d.src.dtype));
  if (!d.src.layout.is_dense(d.src.shape)) return std::string("src needs a dense layout: " + d.src.layout.to_string());
  return std::unique_ptr<SumSquares>(std::make_unique<KokkosSumSquares>(d, device));
}

}  // namespace keelson::kokkos
