#pragma once

#include <cstddef>
#include <cstdint>

/// Products of matrices that are so small that oneDNN's call takes as long as the product: 2 us of 4 for 32 x 64 x 64.
namespace keelson::onednn {

/// Whether the compiler may use fused multiply-adds of 8 floats or more; without them, oneDNN's own kernels are faster.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool small_gemm_is_fast = true;
#else
inline constexpr bool small_gemm_is_fast = false;
#endif

/// c = a b, then + bias and (leaky) ReLU if wanted. The sum of each element is in the order of the depth, whatever the
/// extents are. Runs in the calling thread.
struct SmallGemm {
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< c: (rows, columns), plain
  std::int64_t a_row = 0, a_step = 0;             ///< element (row, k) of a is at row * a_row + k * a_step
  bool transposed = false;                        ///< b is (columns, depth), else (depth, columns); plain

  /// Whether the product is for this kernel. Only extents decide, not the threads: plans of ranks with different
  /// numbers of threads must agree.
  bool is_small() const {
    return small_gemm_is_fast && rows <= 512 && columns <= 512 && depth <= 512 && rows * columns * depth <= 1 << 17;
  }
  /// Bytes of the packed b; 0: run_packed() reads b itself.
  std::size_t packed_bytes() const;
  void pack(const float* b, float* packed) const;
  /// run() without bias, for a b that is used often. `b`: the result of pack(), or b itself if packed_bytes() is 0.
  void run_packed(const float* a, const float* b, float* c) const;
  /// Bytes that run() needs.
  std::size_t scratch_bytes() const;
  /// bias: (columns), or null. `scratch`: scratch_bytes() bytes. `alpha`: c is multiplied by it where c is negative; 1:
  /// identity.
  void run(const float* a, const float* b, const float* bias, float alpha, float* c, void* scratch) const;

 private:
  std::int64_t padded_columns() const { return (columns + 7) / 8 * 8; }
  bool packs() const { return transposed || columns != padded_columns(); }
  void multiply(const float* a, const float* b, const float* bias, float alpha, float* c) const;
};

}  // namespace keelson::onednn
