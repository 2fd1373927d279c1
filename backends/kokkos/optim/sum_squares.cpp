#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/squares.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/update.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosSumSquares : public SumSquares {
 public:
  KokkosSumSquares(const SumSquaresDesc& d, Device& device)
      : desc_(d.src),
        index_(d.index),
        elements_(static_cast<Index>(d.src.bytes() / sizeof(float))),
        sums_(device.allocate(static_cast<std::size_t>(sum_of_squares_scratch(elements_)) * sizeof(double),
                              "sum_squares")) {}
  Layout layout(Verb, Role) const override { return desc_.layout; }
  std::string name(Verb) const override { return "blocked"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    return {2.0 * static_cast<double>(elements_), static_cast<double>(elements_) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, sums] = args;
    sum_of_squares(src.data<float>(), elements_, static_cast<double*>(sums_.get()), sums.data<double>() + index_);
  }

 private:
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
