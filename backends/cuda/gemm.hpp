#pragma once

#include <array>
#include <optional>

#include "backends/common/unsupported.hpp"
#include "backends/cuda/library.hpp"

namespace keelson::cuda {

using backends::decline;
using backends::Unsupported;

/// c (M, N) = a (M, K) b (K, N) by cuBLASLt, sums in f32. a and b have one dtype, f32, bf16 or f16; c has f32 or the
/// same dtype. Strided matrices whose rows or columns are contiguous, with any distance between them.
class Gemm {
 public:
  struct Options {
    bool tf32 = false;  ///< f32 operands may be rounded to 10 bits of mantissa
    bool bias = false;  ///< a f32 vector of N is added to each row; c must be f32 with contiguous rows
  };

  /// Chooses the algorithm, and may run candidates for this. Throws Unsupported if cuBLASLt does not support the
  /// product or has no algorithm that runs.
  Gemm(const LibraryPtr& library, const TensorDesc& a, const TensorDesc& b, const TensorDesc& c, Options options);

  /// "cublaslt:bf16". Does not name the algorithm: see Tuner.
  std::string name() const;
  std::size_t scratch_bytes() const;
  void run(const void* a, const void* b, const float* bias, void* c, void* scratch) const;

 private:
  /// An algorithm, and the alignment of a, b and c that the algorithm needs.
  struct Algorithm {
    std::array<std::uint32_t, 3> alignment;
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace;
  };
  class Trial;

  void plan();  ///< throws Unsupported; Error if a call of cuBLASLt fails
  std::vector<Algorithm> candidates(const std::array<std::uint32_t, 3>& alignment) const;
  Algorithm tuned(const std::vector<Algorithm>& all) const;
  std::string key(const std::array<std::uint32_t, 3>& alignment) const;
  cublasStatus_t multiply(const Algorithm& with, const void* a, const void* b, const float* bias, void* c,
                          void* scratch) const;

  LibraryPtr library_;
  TensorDesc a_, b_, c_;
  Options options_;
  bool swapped_ = false;  ///< computes the transpose, b^T a^T, since c is column-major
  LtMatmul operation_;
  LtLayout left_, right_, result_;  ///< in cublasLt's order
  /// The first algorithm needs the usual alignment of a step's operands. The second algorithm needs no alignment.
  std::optional<Algorithm> aligned_, any_;
};

}  // namespace keelson::cuda
