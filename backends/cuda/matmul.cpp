#include "engine/ops/matmul.hpp"

#include "backends/cuda/gemm.hpp"
#include "backends/cuda/makers.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/base/align.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/matmul.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// Rounds f32 values to 16-bit values with the layout `rounded`.
struct Rounding {
  TensorDesc from, rounded;
  std::unique_ptr<Reorder> reorder;

  Rounding(const TensorDesc& d, DType to) : from(d), rounded{d.shape, to, apart(d)} {
    auto made = kokkos::make(ReorderDesc{from, rounded});
    if (!made.primitive) decline("cannot round {} to {}: {}", to_string(d), to_string(to), made.unsupported_reason);
    reorder = std::move(made.primitive);
  }
  void run(const Tensor& src, void* dst) const { reorder->forward({src, Tensor(rounded, dst)}); }

 private:
  /// The same layout, but each line begins at a multiple of 16 bytes, as tensor cores need.
  static Layout apart(const TensorDesc& d) {
    const auto pitch = [](std::int64_t length) { return (length + 7) / 8 * 8; };
    const bool by_columns = d.layout.strides()[0] == 1 && d.layout.strides()[1] != 1;
    return Layout::strided(d.shape, by_columns ? Shape{1, pitch(d.shape[0])} : Shape{pitch(d.shape[1]), 1});
  }
};

class CudaMatMul : public MatMul {
 public:
  CudaMatMul(const LibraryPtr& library, const MatMulDesc& d) : desc_(d) {
    if (is_half(d.compute) && d.src.dtype == DType::f32) {
      src_.emplace(d.src, d.compute);
      weights_.emplace(d.weights, d.compute);
    }
    gemm_.emplace(library, src_ ? src_->rounded : d.src, weights_ ? weights_->rounded : d.weights, d.dst,
                  Gemm::Options{.tf32 = d.tf32});
  }

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return gemm_->name(); }
  std::size_t scratch_bytes(Verb) const override { return gemm_->scratch_bytes() + src_bytes(); }
  Cost cost(Verb) const override {
    const auto bytes = desc_.src.bytes() + desc_.weights.bytes() + desc_.dst.bytes();
    return {matmul_flops(desc_), static_cast<double>(bytes)};
  }

  std::size_t packed_bytes() const override { return weights_ ? weights_->rounded.bytes() : 0; }
  void pack(const Tensor& weights, void* packed) override {
    if (weights_) weights_->run(weights, packed);
  }
  void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
               void* scratch) override {
    const void* a = src.raw();
    if (src_) {
      src_->run(src, scratch);
      a = scratch;
    }
    gemm_->run(a, weights_ ? packed : weights.raw(), nullptr, dst.raw(), static_cast<char*>(scratch) + src_bytes());
  }

 private:
  std::size_t src_bytes() const { return src_ ? align64(src_->rounded.bytes()) : 0; }

  MatMulDesc desc_;
  std::optional<Rounding> src_, weights_;  ///< for f32 operands that are multiplied as a shorter type
  std::optional<Gemm> gemm_;
};

}  // namespace

Expected<MatMul> make_matmul(const LibraryPtr& library, const MatMulDesc& desc) {
  auto d = desc;
  for (auto* t : {&d.src, &d.weights, &d.dst})
    if (t->layout.is_any()) t->layout = Layout::plain(t->shape);
  for (const auto* t : {&d.src, &d.weights, &d.dst})
    if (t->shape.rank() != 2 || !t->layout.is_strided()) return "an operand is not a strided matrix: " + to_string(*t);
  if (is_half(d.compute) && is_half(d.src.dtype) && d.compute != d.src.dtype)
    return fmt::format("{} operands cannot be multiplied as {}", to_string(d.src.dtype), to_string(d.compute));
  try {
    return std::unique_ptr<MatMul>(std::make_unique<CudaMatMul>(library, d));
  } catch (const Unsupported& why) {
    return std::string(why.what());
  }
}

}  // namespace keelson::cuda
