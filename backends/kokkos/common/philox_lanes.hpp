#pragma once

#include "backends/kokkos/common/tile.hpp"

#if defined(__SSE2__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#include <immintrin.h>
#endif

/// Random numbers of philox::block() for several counters at once.
namespace keelson::kokkos {

#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
/// A 64-bit number for each of some counters: 32-bit words, since their products need 64 bits.
using PhiloxVector = std::uint64_t;
inline constexpr int philox_width = 1, philox_vectors = 1;
KOKKOS_FORCEINLINE_FUNCTION void store_low(PhiloxVector v, std::uint32_t* to) { *to = static_cast<std::uint32_t>(v); }
KOKKOS_FORCEINLINE_FUNCTION PhiloxVector product_of_low(PhiloxVector v, std::uint32_t factor) {
  return (v & 0xffffffffu) * factor;
}
KOKKOS_FORCEINLINE_FUNCTION PhiloxVector philox_lane_numbers() { return 0; }
#else
inline constexpr int philox_width = vector_width / 2, philox_vectors = 16 / philox_width;
using PhiloxVector [[gnu::vector_size(philox_width * 8)]] = std::uint64_t;
KOKKOS_FORCEINLINE_FUNCTION void store_low(const PhiloxVector& v, std::uint32_t* to) {
  using Low [[gnu::vector_size(philox_width * 4), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;
  *reinterpret_cast<Low*>(to) = __builtin_convertvector(v, Low);
}
/// The products of the low words. GCC 16 multiplies whole 64-bit numbers, even where their high words are known to be
/// 0: three instructions' time in place of one.
KOKKOS_FORCEINLINE_FUNCTION PhiloxVector product_of_low(const PhiloxVector& v, std::uint32_t factor) {
#if defined(__AVX512F__)
  return reinterpret_cast<PhiloxVector>(_mm512_mul_epu32(reinterpret_cast<__m512i>(v), _mm512_set1_epi64(factor)));
#elif defined(__AVX2__)
  return reinterpret_cast<PhiloxVector>(_mm256_mul_epu32(reinterpret_cast<__m256i>(v), _mm256_set1_epi64x(factor)));
#elif defined(__SSE2__) && !defined(__AVX__)
  return reinterpret_cast<PhiloxVector>(_mm_mul_epu32(reinterpret_cast<__m128i>(v), _mm_set1_epi64x(factor)));
#else
  return (v & 0xffffffffu) * std::uint64_t{factor};
#endif
}
/// 0, 1, 2, ...
KOKKOS_FORCEINLINE_FUNCTION PhiloxVector philox_lane_numbers() {
  PhiloxVector v{};
  for (int l = 0; l < philox_width; ++l) v[l] = static_cast<std::uint64_t>(l);
  return v;
}
#endif

/// Counters of a work item. On a CPU their rounds are computed together, in two vectors or more: a round waits for the
/// products of the round before.
inline constexpr int philox_lanes = philox_width * philox_vectors;

/// Word w of `philox_lanes` Philox blocks is word[w][lane].
struct PhiloxWords {
  std::uint32_t word[4][philox_lanes];
};

/// philox::block() of the counters first, first + step, ...
KOKKOS_FORCEINLINE_FUNCTION void philox_blocks(std::uint64_t key, std::uint64_t counter_high, std::uint64_t first,
                                               std::uint64_t step, PhiloxWords& words) {
  using V = PhiloxVector;  // the high words of a, b, c, d may hold anything
  V a[philox_vectors], b[philox_vectors], c[philox_vectors], d[philox_vectors];
  const V steps = philox_lane_numbers() * step;
  KEELSON_UNROLL
  for (int v = 0; v < philox_vectors; ++v) {
    const V counter = steps + (first + static_cast<std::uint64_t>(v * philox_width) * step);
    a[v] = counter, b[v] = counter >> 32;
    c[v] = V{} + counter_high, d[v] = V{} + (counter_high >> 32);
  }
  std::uint64_t k0 = key, k1 = key >> 32;
  KEELSON_UNROLL
  for (int i = 0; i < 10; ++i) {
    KEELSON_UNROLL
    for (int v = 0; v < philox_vectors; ++v) {
      const V p0 = product_of_low(a[v], 0xD2511F53u), p1 = product_of_low(c[v], 0xCD9E8D57u);
      a[v] = (p1 >> 32) ^ b[v] ^ k0;
      c[v] = (p0 >> 32) ^ d[v] ^ k1;
      b[v] = p1, d[v] = p0;
    }
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  KEELSON_UNROLL
  for (int v = 0; v < philox_vectors; ++v) {
    store_low(a[v], words.word[0] + v * philox_width), store_low(b[v], words.word[1] + v * philox_width);
    store_low(c[v], words.word[2] + v * philox_width), store_low(d[v], words.word[3] + v * philox_width);
  }
}

}  // namespace keelson::kokkos
