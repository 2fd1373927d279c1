#pragma once

#include "backends/kokkos/common/kernel.hpp"

/// The inner loop of convolution and dense: a tile of `rows` x `lanes` sums in registers. Each step of the reduction
/// adds an outer product: acc[r][l] += a[r] * b[l] (after Goto & van de Geijn, "Anatomy of high-performance matrix
/// multiplication", 2008).
namespace keelson::kokkos {

// Width of a vector register in floats, and how many accumulators fit in the registers beside the operands.
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
inline constexpr int vector_width = 1, tile_rows = 4;
#elif defined(__AVX512F__)
inline constexpr int vector_width = 16, tile_rows = 12;
#elif defined(__AVX__)
inline constexpr int vector_width = 8, tile_rows = 6;
#elif defined(__aarch64__)
inline constexpr int vector_width = 4, tile_rows = 12;
#else
inline constexpr int vector_width = 4, tile_rows = 6;
#endif

/// Loops over a tile must be unrolled, so that the tile stays in registers; -O2 alone does not unroll them.
/// KEELSON_UNROLL_ROWS is for tiles of up to 32 rows.
#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__clang__)
#define KEELSON_UNROLL _Pragma("unroll")
#define KEELSON_UNROLL_ROWS _Pragma("unroll")
#elif defined(__GNUC__)
#define KEELSON_UNROLL _Pragma("GCC unroll 16")
#define KEELSON_UNROLL_ROWS _Pragma("GCC unroll 32")
#else
#define KEELSON_UNROLL
#define KEELSON_UNROLL_ROWS
#endif

/// The widest tile; narrow outputs use a narrower one (see with_lanes).
inline constexpr int max_lanes = vector_width == 1 ? 4 : 2 * vector_width;

/// `count` floats in registers. GCC and Clang get explicit vectors, since they vectorise only some tile shapes by
/// themselves.
template <int count>
struct Lanes {
  static constexpr int width = count < vector_width ? count : vector_width;
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
  struct Vector {
    float x;
    KOKKOS_FUNCTION friend Vector operator*(float s, Vector v) { return {s * v.x}; }
    KOKKOS_FUNCTION friend Vector operator*(Vector a, Vector b) { return {a.x * b.x}; }
    KOKKOS_FUNCTION friend Vector operator+(Vector a, Vector b) { return {a.x + b.x}; }
    KOKKOS_FUNCTION friend Vector operator-(Vector a, Vector b) { return {a.x - b.x}; }
    KOKKOS_FUNCTION friend Vector operator-(Vector a) { return {-a.x}; }
    KOKKOS_FUNCTION Vector& operator+=(Vector v) { return x += v.x, *this; }
    KOKKOS_FUNCTION Vector& operator-=(Vector v) { return x -= v.x, *this; }
  };
  static_assert(width == 1);
#else
  using Vector [[gnu::vector_size(width * 4), gnu::aligned(4), gnu::may_alias]] = float;
#endif
  Vector part[count / width];

  KOKKOS_FORCEINLINE_FUNCTION void load(const float* p) {
    KEELSON_UNROLL
    for (int i = 0; i < count / width; ++i) part[i] = reinterpret_cast<const Vector*>(p)[i];
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(float* p) const {
    KEELSON_UNROLL
    for (int i = 0; i < count / width; ++i) reinterpret_cast<Vector*>(p)[i] = part[i];
  }
  KOKKOS_FORCEINLINE_FUNCTION void add_scaled(float s, const Lanes& v) {
    KEELSON_UNROLL
    for (int i = 0; i < count / width; ++i) part[i] += s * v.part[i];
  }
  /// this += a b, lane by lane.
  KOKKOS_FORCEINLINE_FUNCTION void add_product(const Lanes& a, const Lanes& b) {
    KEELSON_UNROLL
    for (int i = 0; i < count / width; ++i) part[i] += a.part[i] * b.part[i];
  }
  /// this = s this + v: each result depends on the one before.
  KOKKOS_FORCEINLINE_FUNCTION void scale_and_add(float s, const Lanes& v) {
    KEELSON_UNROLL
    for (int i = 0; i < count / width; ++i) {
      Vector scaled = s * part[i];
      scaled += v.part[i];
      part[i] = scaled;
    }
  }
};

/// Floats of a cache line.
inline constexpr int floats_of_line = 16;

/// Prefetches the cache line of `p`, which may be any address, into the second cache level (`first_level`: into the
/// first).
template <bool first_level = false>
KOKKOS_FORCEINLINE_FUNCTION void prefetch([[maybe_unused]] const void* p) {
#if !defined(__CUDACC__) && !defined(__HIPCC__) && defined(__GNUC__)
  __builtin_prefetch(p, 0, first_level ? 3 : 2);
#endif
}

/// Prefetches the cache line of `p`, which may be any address, into the first cache level, to be written.
KOKKOS_FORCEINLINE_FUNCTION void prefetch_to_write([[maybe_unused]] void* p) {
#if !defined(__CUDACC__) && !defined(__HIPCC__) && defined(__GNUC__)
  __builtin_prefetch(p, 1, 3);
#endif
}

/// `p`, which the compiler computes once and keeps in a register. Without this, it may add an index in each load from
/// p; processors of Intel divide a multiply-add whose operand has such an address into two operations.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T* in_register(T* p) {
#if !defined(__CUDACC__) && !defined(__HIPCC__) && defined(__GNUC__)
  asm("" : "+r"(p));
#endif
  return p;
}

/// acc[r] += sum over k < count of a[row[r] + k a_step] * b[k b_step ... + lanes)
template <int rows, int lanes>
KOKKOS_FORCEINLINE_FUNCTION void multiply(Lanes<lanes> (&acc)[rows], const float* a, const Index (&row)[rows],
                                          Index a_step, const float* b, Index b_step, Index count) {
  for (Index k = 0; k < count; ++k) {
    Lanes<lanes> bk;
    bk.load(b + k * b_step);
    const float* ak = a + k * a_step;
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) acc[r].add_scaled(ak[row[r]], bk);
  }
}

/// Calls use(std::integral_constant<int, lanes>) with the narrowest tile that has `columns` lanes, or with the widest
/// tile.
template <class Use>
void with_lanes(Index columns, const Use& use) {
  if constexpr (vector_width > 4)
    if (columns <= 4) return use(std::integral_constant<int, 4>{});
  if constexpr (vector_width > 1)
    if (columns <= vector_width) return use(std::integral_constant<int, vector_width>{});
  use(std::integral_constant<int, max_lanes>{});
}

constexpr Index lanes_for(Index columns) {
  return vector_width > 4 && columns <= 4 ? 4 : vector_width > 1 && columns <= vector_width ? vector_width : max_lanes;
}

}  // namespace keelson::kokkos
