#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/kokkos/common.hpp"
#include "engine/tensor/half.hpp"

/// Several values side by side that are moved at once: a thread of a GPU should move 16 bytes.
namespace keelson::kokkos {

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

template <class T, int N>
KOKKOS_INLINE_FUNCTION void load(const Pack<T, N>& pack, float (&x)[N]) {
  const Pack<T, N> here = pack;
  for (int i = 0; i < N; ++i) x[i] = to_float(here.values[i]);
}

template <class T, int N>
KOKKOS_INLINE_FUNCTION Pack<T, N> stored(const float (&x)[N]) {
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) pack.values[i] = from_float<T>(x[i]);
  return pack;
}

template <class T, int N>
bool aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % alignof(Pack<T, N>) == 0;
}

/// Calls use(T{}) with the type of `type`, which is f32, bf16 or f16.
template <class Use>
void with_floating(DType type, const Use& use) {
  if (type == DType::bf16) return use(bf16{});
  if (type == DType::f16) return use(f16{});
  KEELSON_EXPECT(type == DType::f32);
  use(float{});
}

/// Calls use(integral_constant<int, N>) with the most values of T that fit into 16 bytes, if N divides `count` and both
/// pointers are aligned for it; else with N = 1.
template <class T, class Use>
void with_pack(Index count, const void* a, const void* b, const Use& use) {
  constexpr int most = 16 / static_cast<int>(sizeof(T));
  if (count % most == 0 && aligned<T, most>(a) && aligned<T, most>(b))
    use(std::integral_constant<int, most>{});
  else
    use(std::integral_constant<int, 1>{});
}

}  // namespace keelson::kokkos
