#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace keelson {

/// Element types. Compute and activations may be low precision; parameters, accumulation and reductions are f32.
enum class DType : std::uint8_t { f32, f64, bf16, f16, s32, u8, u16 };

/// Bytes of an element.
constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::s32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view to_string(DType t) {
  constexpr std::string_view names[] = {"f32", "f64", "bf16", "f16", "s32", "u8", "u16"};
  return names[static_cast<int>(t)];
}

/// A 16-bit number as stored in memory; to_float() and other functions in half.hpp convert it.
struct bf16 {  ///< the upper half of an IEEE binary32
  std::uint16_t bits;
};
/// A 16-bit number with 5 bits of exponent.
struct f16 {  ///< IEEE binary16
  std::uint16_t bits;
};

constexpr bool is_half(DType t) { return t == DType::bf16 || t == DType::f16; }  ///< 16-bit floating point

/// The DType of a C++ type.
template <class T>
inline constexpr DType dtype_of = DType::f32;
/// `bf16`
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
/// `f16`
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
/// `double`
template <>
inline constexpr DType dtype_of<double> = DType::f64;
/// `std::int32_t`
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::s32;
/// `std::uint8_t`
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
/// `std::uint16_t`
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;

}  // namespace keelson
