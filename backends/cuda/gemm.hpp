#pragma once

#include <array>
#include <optional>

#include "backends/common/unsupported.hpp"
#include "backends/cuda/library.hpp"

namespace keelson::cuda {

using backends::decline;
using backends::Unsupported;

/// c (M, N) = a (M, K) b (K, N) by cuBLASLt, sums in f32. a and b are of one dtype, f32, bf16 or f16; c is f32 or of
/// theirs. Strided matrices whose rows or columns lie together, at any distance from each other.
class Gemm {
 public:
  struct Options {
    bool tf32 = false;  ///< f32 operands may be rounded to 10 bits of mantissa
    bool bias = false;  ///< a f32 vector of N is added to each row; c is f32, its rows together
  };

  /// Chooses the algorithm, which may run candidates. Throws Unsupported for what cuBLASLt does not take, refuses with
  /// an error, or has no algorithm for that runs.
  Gemm(const LibraryPtr& library, const TensorDesc& a, const TensorDesc& b, const TensorDesc& c, Options options);

  /// "cublaslt:bf16". Not the algorithm: see Tuner.
  std::string name() const;
  std::size_t scratch_bytes() const;
  void run(const void* a, const void* b, const float* bias, void* c, void* scratch) const;

 private:
  /// An algorithm and the least alignment of a, b and c that it relies on.
  struct Algorithm {
    std::array<std::uint32_t, 3> alignment;
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace;
  };
  class Trial;

  void plan();  ///< throws Unsupported; Error where a call of cuBLASLt fails
  std::vector<Algorithm> candidates(const std::array<std::uint32_t, 3>& alignment) const;
  Algorithm tuned(const std::vector<Algorithm>& all) const;
  std::string key(const std::array<std::uint32_t, 3>& alignment) const;
  cublasStatus_t multiply(const Algorithm& with, const void* a, const void* b, const float* bias, void* c,
                          void* scratch) const;

  LibraryPtr library_;
  TensorDesc a_, b_, c_;
  Options options_;
  bool swapped_ = false;  ///< computes the transpose, b^T a^T, since c lies by columns
  LtMatmul operation_;
  LtLayout left_, right_, result_;  ///< in cublasLt's order
  /// The first one for operands that lie as those of a step do, the second one for operands anywhere.
  std::optional<Algorithm> aligned_, any_;
};

}  // namespace keelson::cuda
