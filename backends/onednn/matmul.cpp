#include "engine/ops/matmul.hpp"

#include "backends/onednn/gemm.hpp"
#include "backends/onednn/small_gemm.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;
using ops::Verb;

class MatMul final : public ops::MatMul {
 public:
  MatMul(const LibraryPtr& library, const ops::MatMulDesc& d)
      : desc_(d), gemm_(library, d.src, d.weights, d.dst, d.uses, d.compute) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return gemm_.name(); }
  std::size_t scratch_bytes(Verb) const override { return gemm_.scratch_bytes(); }
  ops::Cost cost(Verb) const override { return gemm_.cost(); }

  std::size_t packed_bytes() const override { return gemm_.packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override { gemm_.pack(weights, packed); }
  void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
               void* scratch) override {
    gemm_.run(src, weights, packed, dst, scratch);
  }

 private:
  ops::MatMulDesc desc_;
  Gemm gemm_;
};

/// A product that oneDNN's call would slow down.
class SmallMatMul final : public ops::MatMul {
 public:
  SmallMatMul(const ops::MatMulDesc& d, const SmallGemm& gemm) : desc_(d), gemm_(gemm) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return "small_gemm"; }
  ops::Cost cost(Verb) const override {
    return {ops::matmul_flops(desc_),
            static_cast<double>(desc_.src.bytes() + desc_.weights.bytes() + desc_.dst.bytes())};
  }

  std::size_t packed_bytes() const override { return gemm_.packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override {
    gemm_.pack(weights.data<float>(), static_cast<float*>(packed));
  }
  void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst, void*) override {
    gemm_.run_packed(src.data<float>(), packed ? static_cast<const float*>(packed) : weights.data<float>(),
                     dst.data<float>());
  }

 private:
  ops::MatMulDesc desc_;
  SmallGemm gemm_;
};

/// The product as a small one, if the operands fit.
std::optional<SmallGemm> small_gemm_of(const ops::MatMulDesc& d) {
  const bool f32 = d.src.dtype == DType::f32 && d.dst.dtype == DType::f32 && d.compute == DType::f32;
  const bool transposed = d.weights.transposed().layout.is_plain(d.weights.transposed().shape);
  if (!f32 || !d.dst.layout.is_plain(d.dst.shape) || !(transposed || d.weights.layout.is_plain(d.weights.shape)))
    return {};
  const auto strides = d.src.layout.strides();
  const SmallGemm g{d.dst.shape[0], d.dst.shape[1], d.src.shape[1], strides[0], strides[1], transposed};
  return g.is_small() ? std::optional(g) : std::nullopt;
}

}  // namespace

std::unique_ptr<ops::MatMul> make_matmul(const LibraryPtr& library, const ops::MatMulDesc& desc) {
  auto d = desc;
  for (TensorDesc* t : {&d.src, &d.weights, &d.dst}) {
    if (t->shape.rank() != 2) decline("an operand has rank {}, expected a matrix", t->shape.rank());
    if (t->layout.is_any()) t->layout = Layout::plain(t->shape);
    if (!t->layout.is_strided()) decline("an operand is not strided");
  }
  if (d.src.shape[1] != d.weights.shape[0] || d.dst.shape[0] != d.src.shape[0] || d.dst.shape[1] != d.weights.shape[1])
    decline("shapes {}, {} and {} do not fit", to_string(d.src.shape), to_string(d.weights.shape),
            to_string(d.dst.shape));
  if (const auto small = small_gemm_of(d)) return std::make_unique<SmallMatMul>(d, *small);
  return std::make_unique<MatMul>(library, d);
}

}  // namespace keelson::onednn
