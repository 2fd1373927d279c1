#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class MatMul;

/// dst (M, N) = src (M, K) weights (K, N), any strides; src and weights of one dtype, f32, bf16 or f16; dst f32 or
/// theirs; sums are f32. Not f32: backends without kernels for it refuse. Strides: a transposed matrix is one with its
/// strides exchanged, and rows may lie apart, as those of one time step in a sequence do. Operands must not overlap.
struct MatMulDesc {
  using Op = MatMul;
  TensorDesc src, weights, dst;
  /// bf16: src and weights are rounded to it before they are multiplied; sums and dst stay f32. Refused by backends
  /// without kernels for it.
  DType compute = DType::f32;
  int uses = 1;       ///< how often the same weights are used: what it pays to rearrange them for
  bool tf32 = false;  ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied

  std::vector<Verb> verbs() const { return {Verb::forward}; }
  void take_layouts(const MatMul& product);  ///< gives all operands the layouts that `product` has
};

/// Not a call of plans: layers and primitives that are made of products hand it pieces of their own memory.
class MatMul : public DescribedPrimitive<MatMulDesc> {
 public:
  /// Bytes of the rearranged weights; 0: weights are read as they are.
  virtual std::size_t packed_bytes() const { return 0; }
  /// Rearranges the weights for the forward() calls to come; `packed` is 64-byte aligned memory of packed_bytes().
  virtual void pack(const Tensor& weights, void* packed) { (void)weights, (void)packed; }
  /// `weights`: the tensor given to pack(), `packed` what that made of it (null for 0 bytes). `scratch`: 64-byte
  /// aligned memory of scratch_bytes(Verb::forward).
  virtual void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
                       void* scratch) = 0;
};

/// 2 M N K.
double matmul_flops(const MatMulDesc& d);

std::string describe(const MatMulDesc& d);

}  // namespace keelson::ops
