#pragma once

#include "backends/onednn/support.hpp"

namespace keelson::onednn {

/// dst = src weights for f32 matrices of any strides, by oneDNN's matmul. If there are enough rows, the weights are
/// first packed in oneDNN's layout: on two Sapphire Rapids cores this makes products of 700 rows with 1500 x 6000
/// weights 10 to 25 % faster.
class Gemm {
 public:
  Gemm() = default;
  /// `uses`: how often the same weights are used. `compute` bf16: operands are rounded first. Throws dnnl::error or
  /// Unsupported.
  Gemm(const LibraryPtr& library, const TensorDesc& src, const TensorDesc& weights, const TensorDesc& dst, int uses,
       DType compute = DType::f32);

  explicit operator bool() const { return static_cast<bool>(call_); }
  const std::string& name() const { return call_.name(); }
  ops::Cost cost() const { return call_.cost(); }
  std::size_t scratch_bytes() const;
  std::size_t packed_bytes() const { return pack_ ? packed_.bytes() : 0; }
  void pack(const Tensor& weights, void* packed);
  /// `packed`: the result of pack(); null for 0 bytes. `scratch`: memory of scratch_bytes().
  void run(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst, void* scratch);

  /// For weights that are used once: packs and multiplies, with memory of all_scratch_bytes().
  std::size_t all_scratch_bytes() const;
  void pack_and_run(const Tensor& src, const Tensor& weights, const Tensor& dst, void* scratch);

 private:
  TensorDesc packed_, rounded_;
  Call call_, pack_, round_;  ///< round_: src to bf16
};

}  // namespace keelson::onednn
