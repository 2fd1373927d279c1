#pragma once

#include "backends/kokkos/common/kernel.hpp"
#include "engine/tensor/half.hpp"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Values are stored as f32, bf16 or f16; kernels compute in float. Each kernel is a template over the stored type.
namespace keelson::kokkos {

KOKKOS_FORCEINLINE_FUNCTION float value_of(float x) { return x; }
KOKKOS_FORCEINLINE_FUNCTION float value_of(bf16 x) { return to_float(x); }
KOKKOS_FORCEINLINE_FUNCTION float value_of(f16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  return to_float(x);
#endif
}

/// x rounded to the nearest T.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T stored(float x) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, bf16>)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  else if constexpr (std::is_same_v<T, f16>)
    return {__half_as_ushort(__float2half_rn(x))};
  else
    return x;
#else
  return from_float<T>(x);
#endif
}

constexpr bool is_value_type(DType t) { return t == DType::f32 || is_half(t); }

/// Calls use(T{}) with the stored type: one branch outside of the kernels.
template <class Use>
void with_type(DType t, const Use& use) {
  switch (t) {
    case DType::f32:
      return use(float{});
    case DType::bf16:
      return use(bf16{});
    case DType::f16:
      return use(f16{});
    default:
      fail("dtype {} was not declined", static_cast<int>(t));
  }
}

/// "" if the kernels can read the tensor, else the reason why not. `any` passes: it is a request.
inline std::string not_strided_values(const char* name, const TensorDesc& d) {
  if (!is_value_type(d.dtype)) return fmt::format("{} is {}, not f32, bf16 or f16", name, to_string(d.dtype));
  if (d.layout.is_opaque()) return fmt::format("{} has the layout {} of another backend", name, d.layout.to_string());
  return "";
}

/// The number of neighbouring values that a GPU's thread moves at once: 16 bytes, or the bytes of as many values.
template <class T>
inline constexpr int pack_width = 16 / static_cast<int>(sizeof(T));
template <class T, int width>
struct alignas(sizeof(T) * width < 16 ? sizeof(T) * width : 16) Pack {
  T x[width];
};

inline bool aligned(const void* p, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

/// The number of neighbours that a GPU's thread may move in arrays that begin here: pack_width, or 1 if one is not
/// aligned.
template <class T, class... Pointers>
Index neighbours(Pointers... p) {
  return (aligned(p, 16) && ...) ? pack_width<T> : 1;
}

/// Calls use(integral_constant<int, N>) with N = pack_width if it divides `count` and both pointers are aligned for a
/// pack, else with N = 1.
template <class T, class Use>
void with_pack(Index count, const void* a, const void* b, const Use& use) {
  if (count % pack_width<T> == 0 && neighbours<T>(a, b) > 1)
    use(std::integral_constant<int, pack_width<T>>{});
  else
    use(std::integral_constant<int, 1>{});
}

/// `count` neighbours as floats. On a GPU, more than one must be aligned as a Pack.
template <int count, class T>
KOKKOS_FORCEINLINE_FUNCTION void load(const T* p, float (&v)[count]) {
  if constexpr (!runs_on_host && count > 1) {
    const auto pack = *reinterpret_cast<const Pack<T, count>*>(p);
    for (int l = 0; l < count; ++l) v[l] = value_of(pack.x[l]);
  } else {
    KEELSON_KEEP_LOOP
    for (int l = 0; l < count; ++l) v[l] = value_of(p[l]);
  }
}

template <int count, class T>
KOKKOS_FORCEINLINE_FUNCTION void store(T* p, const float (&v)[count]) {
  if constexpr (!runs_on_host && count > 1) {
    Pack<T, count> pack;
    for (int l = 0; l < count; ++l) pack.x[l] = stored<T>(v[l]);
    *reinterpret_cast<Pack<T, count>*>(p) = pack;
  } else {
    KEELSON_KEEP_LOOP
    for (int l = 0; l < count; ++l) p[l] = stored<T>(v[l]);
  }
}

namespace detail {

template <int count, class F, class T, class... S>
KOKKOS_FORCEINLINE_FUNCTION void map_pack(const F& f, T* dst, const Pack<S, count>&... src) {
  Pack<T, count> result;
  for (int l = 0; l < count; ++l) result.x[l] = stored<T>(f(value_of(src.x[l])...));
  *reinterpret_cast<Pack<T, count>*>(dst) = result;
}

}  // namespace detail

/// dst[i] = f(src[i]...) for begin <= i < end, in float. May work in place: each element is read before it is written.
template <class T, class F, class... S>
KOKKOS_FORCEINLINE_FUNCTION void map_run(Index begin, Index end, const F& f, T* dst, const S*... src) {
  if constexpr (!runs_on_host) {
    constexpr int width = pack_width<T>;
    if (end - begin == width)
      return detail::map_pack<width>(f, dst + begin, *reinterpret_cast<const Pack<S, width>*>(src + begin)...);
  }
  KEELSON_INDEPENDENT_ITERATIONS
  for (Index i = begin; i < end; ++i) dst[i] = stored<T>(f(value_of(src[i])...));
}

}  // namespace keelson::kokkos
