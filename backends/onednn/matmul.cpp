#include "engine/ops/matmul.hpp"

#include "backends/onednn/gemm.hpp"

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
  return std::make_unique<MatMul>(library, d);
}

}  // namespace keelson::onednn
