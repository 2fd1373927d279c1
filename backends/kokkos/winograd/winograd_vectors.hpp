#pragma once

#include <type_traits>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/common/values.hpp"

/// Vectors of independent channels in registers, for the transforms of Winograd's algorithms.
namespace keelson::kokkos {

#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)

template <int width>
using Channels = typename Lanes<width>::Vector;

template <class V>
KOKKOS_FORCEINLINE_FUNCTION V load(const float* from) {
  return {*from};
}
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V load(const bf16* from) {
  return {value_of(*from)};
}
template <class V>
KOKKOS_FORCEINLINE_FUNCTION int load_integers(const std::uint8_t* from) {
  return *from;
}
template <class V>
  requires(!std::is_pointer_v<V>)
KOKKOS_FORCEINLINE_FUNCTION void store(const V& v, float* to) {
  *to = v.x;
}
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V first_lanes(const V& v, Index) {
  return v;
}
/// Vectors side by side in one.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V join(const V (&v)[1]) {
  return v[0];
}

#else

/// These vectors are aligned, unlike Lanes<width>::Vector.
template <int width>
using Channels [[gnu::vector_size(width * 4)]] = float;

/// The vectors for Channels<width>. They are loaded from any address.
template <int width>
struct VectorsOf {
  using Integers [[gnu::vector_size(width * 4)]] = std::int32_t;
  using Halves [[gnu::vector_size(width * 2), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
  using Bytes [[gnu::vector_size(width), gnu::aligned(1), gnu::may_alias]] = std::uint8_t;
};

template <class V>
inline constexpr int width_of = sizeof(V) / sizeof(float);

template <class V>
KOKKOS_FORCEINLINE_FUNCTION V load(const float* from) {
  return *reinterpret_cast<const typename Lanes<width_of<V>>::Vector*>(from);
}
/// bf16 is the upper half of the bits of f32.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V load(const bf16* from) {
  using Vectors = VectorsOf<width_of<V>>;
  const auto bits = *reinterpret_cast<const typename Vectors::Halves*>(from);
  return std::bit_cast<V>(__builtin_convertvector(bits, typename Vectors::Integers) << 16);
}
template <class V>
KOKKOS_FORCEINLINE_FUNCTION auto load_integers(const std::uint8_t* from) {
  using Vectors = VectorsOf<width_of<V>>;
  return __builtin_convertvector(*reinterpret_cast<const typename Vectors::Bytes*>(from), typename Vectors::Integers);
}
template <class V>
  requires(!std::is_pointer_v<V>)
KOKKOS_FORCEINLINE_FUNCTION void store(const V& v, float* to) {
  *reinterpret_cast<typename Lanes<width_of<V>>::Vector*>(to) = v;
}
/// The first `valid` lanes; the others are 0, whatever they were.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V first_lanes(const V& v, Index valid) {
  using Integers = typename VectorsOf<width_of<V>>::Integers;
  Integers lane;
  for (int l = 0; l < width_of<V>; ++l) lane[l] = l;
  return std::bit_cast<V>(std::bit_cast<Integers>(v) & (lane < static_cast<std::int32_t>(valid)));
}

/// 1, 2 or 4 vectors of 4 lanes side by side in one.
template <std::size_t count>
KOKKOS_FORCEINLINE_FUNCTION auto join(const Channels<4> (&v)[count]) {
  if constexpr (count == 1) {
    return v[0];
  } else if constexpr (count == 2) {
    return __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    static_assert(count == 4);
    const auto first = __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 4, 5, 6, 7),
               last = __builtin_shufflevector(v[2], v[3], 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(first, last, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

#endif

}  // namespace keelson::kokkos
