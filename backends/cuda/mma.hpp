#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

/// Matrix products of tensor cores (PTX ISA, "Matrix fragments for mma.m16n8k16"), from sm_80 on. Each of a warp's 32
/// threads holds a part of each matrix. With g = lane / 4 and t = lane % 4 these are, as pairs of 16-bit values:
///   a[0], a[1]: rows g and g + 8, columns 2t and 2t + 1; a[2], a[3]: the same rows, columns 2t + 8 and 2t + 9
///   b[0]: rows 2t and 2t + 1 of column g; b[1]: rows 2t + 8 and 2t + 9
///   d[0], d[1]: row g, columns 2t and 2t + 1; d[2], d[3]: row g + 8
namespace keelson::cuda {

template <class T>
__device__ inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

template <>
__device__ inline void multiply_add<__nv_bfloat16>(float (&d)[4], const std::uint32_t (&a)[4],
                                                   const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ inline void multiply_add<__half>(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

template <class T>
__device__ inline void multiply_add(float (&)[4], const std::uint32_t (&)[4], const std::uint32_t (&)[2]) {
  __trap();  // not reached: PooledConv declines older GPUs
}

#endif

/// Two values rounded to 16 bits; `low` is in the lower half.
__device__ inline std::uint32_t rounded_pair(float low, float high, __nv_bfloat16) {
  const auto pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline std::uint32_t rounded_pair(float low, float high, __half) {
  const auto pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Two 16-bit halves of `low` and `high`: both lower ones, or both upper ones.
__device__ inline std::uint32_t lower_halves(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x5410);
}
__device__ inline std::uint32_t upper_halves(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x7632);
}

/// The larger value, or NaN if one is NaN.
__device__ inline float larger_or_nan(float a, float b) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  __trap();
#endif
}

}  // namespace keelson::cuda
