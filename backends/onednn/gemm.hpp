#pragma once

#include "backends/onednn/support.hpp"

namespace keelson::onednn {

/// dst = src weights for f32 matrices of any strides, by oneDNN's matmul. Where enough rows meet them the weights are
/// rearranged first, as oneDNN likes them: on two Sapphire Rapids cores that takes 10 to 25 % off products of 700 rows
/// with 1500 x 6000 weights.
class Gemm {
 public:
  Gemm() = default;
  /// `uses`: of the same weights. `compute` bf16: operands are rounded to it first. Throws dnnl::error or Unsupported.
  Gemm(const LibraryPtr& library, const TensorDesc& src, const TensorDesc& weights, const TensorDesc& dst, int uses,
       DType compute = DType::f32);

  explicit operator bool() const { return static_cast<bool>(call_); }
  const std::string& name() const { return call_.name(); }
  ops::Cost cost() const { return call_.cost(); }
  std::size_t scratch_bytes() const;
  std::size_t packed_bytes() const { return pack_ ? packed_.bytes() : 0; }
  void pack(const Tensor& weights, void* packed);
  /// `packed`: what pack() made of the weights; null for 0 bytes. `scratch`: memory of scratch_bytes().
  void run(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst, void* scratch);

  /// For one use: packs and runs, in memory of all_scratch_bytes().
  std::size_t all_scratch_bytes() const;
  void pack_and_run(const Tensor& src, const Tensor& weights, const Tensor& dst, void* scratch);

 private:
  TensorDesc packed_, rounded_;
  Call call_, pack_, round_;  ///< round_: src to bf16
};

}  // namespace keelson::onednn
