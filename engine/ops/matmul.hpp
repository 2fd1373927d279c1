#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class MatMul;

/// dst (M, N) = src (M, K) weights (K, N), any strides; src and weights have the same dtype, f32, bf16 or f16; dst has
/// that dtype or f32; sums are f32. Backends without kernels for 16-bit types decline them. A transposed matrix is
/// given by exchanged strides, and rows may have gaps between them, e.g. the rows of one time step in a sequence.
/// dst must not overlap src or weights.
struct MatMulDesc {
  using Op = MatMul;
  TensorDesc src, weights, dst;
  /// bf16: src and weights are rounded to bf16 before they are multiplied; sums and dst stay f32. Backends without
  /// kernels for it decline.
  DType compute = DType::f32;
  int uses = 1;       ///< how often the same weights are used, which decides whether packing them pays
  bool tf32 = false;  ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied

  std::vector<Verb> verbs() const { return {Verb::forward}; }  ///< those that there are
  void take_layouts(const MatMul& product);                    ///< gives all operands the layouts that `product` has
};

/// Plans do not call this op. Layers and primitives that consist of products call it with parts of their own memory.
class MatMul : public DescribedPrimitive<MatMulDesc> {
 public:
  /// Bytes of the packed weights; 0: weights are not packed.
  virtual std::size_t packed_bytes() const { return 0; }
  /// Packs the weights for later forward() calls; `packed` is 64-byte aligned memory of packed_bytes().
  virtual void pack(const Tensor& weights, void* packed) { (void)weights, (void)packed; }
  /// `weights`: the tensor given to pack(); `packed`: the result of pack() (null for 0 bytes). `scratch`: 64-byte
  /// aligned memory of scratch_bytes(Verb::forward).
  virtual void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
                       void* scratch) = 0;
};

/// 2 M N K.
double matmul_flops(const MatMulDesc& d);

std::string describe(const MatMulDesc& d);

}  // namespace keelson::ops
