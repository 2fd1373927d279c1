#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_convert.hpp"
#include "engine/tensor/half.hpp"

namespace keelson::detail {
namespace {

/// A stored element; of f16, its value as float.
template <class S>
auto load_element(const std::byte* p) {
  S stored;
  std::memcpy(&stored, p, sizeof stored);
  if constexpr (std::is_same_v<S, f16>)
    return to_float(stored);
  else
    return stored;
}

template <class Bits, class Swap>
void swap_each(std::byte* elements, std::int64_t n, const Swap& swap) {
  constexpr std::int64_t size = sizeof(Bits);
  for (std::int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, elements + i * size, sizeof bits);
    bits = swap(bits);
    std::memcpy(elements + i * size, &bits, sizeof bits);
  }
}

/// Calls f with a value of the type in memory.
template <class F>
auto with_stored_type(hdf5::Type type, bool is_unsigned, const F& f) {
  using hdf5::Type;
  switch (type) {
    case Type::i8:
      return is_unsigned ? f(std::uint8_t{}) : f(std::int8_t{});
    case Type::u8:
      return f(std::uint8_t{});
    case Type::i16:
      return is_unsigned ? f(std::uint16_t{}) : f(std::int16_t{});
    case Type::u16:
      return f(std::uint16_t{});
    case Type::i32:
      return is_unsigned ? f(std::uint32_t{}) : f(std::int32_t{});
    case Type::u32:
      return f(std::uint32_t{});
    case Type::i64:
      return is_unsigned ? f(std::uint64_t{}) : f(std::int64_t{});
    case Type::u64:
      return f(std::uint64_t{});
    case Type::f16:
      return f(f16{});
    case Type::f32:
      return f(float{});
    case Type::f64:
      return f(double{});
    case Type::other:
      break;
  }
  fail("internal error: elements that are no numbers were to be converted");
}

/// The type in which stored elements are compared with missing ones. Attributes are read as double, so integers of 8
/// bytes are compared as double, too.
template <class Element>
using ComparedAs = std::conditional_t<std::is_integral_v<Element> && sizeof(Element) == 8, double, Element>;

/// The missing numbers in the type of comparisons. A number that the stored type cannot hold is never stored.
template <class Element>
std::vector<ComparedAs<Element>> missing_elements(const ArrayPacking& packing) {
  std::vector<ComparedAs<Element>> missing;
  for (double m : packing.missing) {
    if constexpr (std::is_floating_point_v<ComparedAs<Element>>) {
      missing.push_back(static_cast<ComparedAs<Element>>(m));
    } else {
      if (packing.is_unsigned && m < 0) m += std::ldexp(1.0, 8 * sizeof(Element));
      const auto least = static_cast<double>(std::numeric_limits<Element>::lowest());
      if (m >= least && m < std::ldexp(1.0, std::numeric_limits<Element>::digits) && m == std::floor(m))
        missing.push_back(static_cast<Element>(m));
    }
  }
  return missing;
}

/// A bound of the valid numbers in the type of comparisons; an infinite one becomes the type's own.
template <class Element>
ComparedAs<Element> bound_as(double bound) {
  using Limits = std::numeric_limits<ComparedAs<Element>>;
  if constexpr (std::is_integral_v<ComparedAs<Element>>)
    if (std::isinf(bound)) return bound < 0 ? Limits::lowest() : Limits::max();
  return static_cast<ComparedAs<Element>>(bound);
}

/// Whether an int32 has exactly this value.
template <class V>
bool fits_int32(V value) {
  if constexpr (std::is_floating_point_v<V>)
    return value >= V(-2147483648.0) && value < V(2147483648.0) && value == std::trunc(value);
  else
    return std::in_range<std::int32_t>(value);
}

/// Converts by `value_at(i)`, a number. Returns the first index that T cannot hold, or -1.
template <class T, class ValueAt>
std::int64_t convert_values(std::int64_t n, T* dst, const ValueAt& value_at) {
  if constexpr (std::is_floating_point_v<T>) {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = static_cast<T>(value_at(i));
    return -1;
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value = value_at(i);
      if (!fits_int32(value)) return i;
      dst[i] = static_cast<T>(value);
    }
    return -1;
  }
}

template <class S, class T>
std::int64_t convert_from(const std::byte* src, const ArrayPacking& packing, std::int64_t n, T* dst) {
  constexpr std::int64_t size = sizeof(S);
  const auto element = [src](std::int64_t i) { return load_element<S>(src + i * size); };
  using Element = decltype(element(0));
  const bool scaled = packing.scale != 1 || packing.offset != 0;
  const bool is_bounded = std::isfinite(packing.least) || std::isfinite(packing.most);
  if (packing.missing.empty() && !scaled && !is_bounded) return convert_values(n, dst, element);
  const auto missing = missing_elements<Element>(packing);
  const double scale = packing.scale, offset = packing.offset;
  if (is_bounded || (missing.size() != 1 && missing.size() != 2)) {
    const auto least = bound_as<Element>(packing.least), most = bound_as<Element>(packing.most);
    return convert_values(n, dst, [&](std::int64_t i) {
      const auto stored = static_cast<ComparedAs<Element>>(element(i));
      const bool is_missing = stored < least || stored > most || std::ranges::find(missing, stored) != missing.end();
      return is_missing ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(element(i)) * scale + offset;
    });
  }
  const auto is_missing = [a = missing.front(), b = missing.back()](Element e) {
    const auto stored = static_cast<ComparedAs<Element>>(e);
    return stored == a || stored == b;
  };
  if constexpr (std::is_floating_point_v<T>)
    if (!scaled)
      return convert_values(n, dst, [=](std::int64_t i) {
        const Element e = element(i);
        return is_missing(e) ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(e);
      });
  return convert_values(n, dst, [=](std::int64_t i) {
    const Element e = element(i);
    return is_missing(e) ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(e) * scale + offset;
  });
}

}  // namespace

void swap_bytes(void* elements, std::int64_t size, std::int64_t n) {
  auto* const bytes = static_cast<std::byte*>(elements);
  if (size == 2)
    swap_each<std::uint16_t>(bytes, n, [](auto b) { return __builtin_bswap16(b); });
  else if (size == 4)
    swap_each<std::uint32_t>(bytes, n, [](auto b) { return __builtin_bswap32(b); });
  else if (size == 8)
    swap_each<std::uint64_t>(bytes, n, [](auto b) { return __builtin_bswap64(b); });
}

template <class T>
std::int64_t convert_stored(const void* src, hdf5::Type type, const ArrayPacking& packing, std::int64_t n, T* dst) {
  return with_stored_type(type, packing.is_unsigned, [&](auto sample) {
    return convert_from<decltype(sample)>(static_cast<const std::byte*>(src), packing, n, dst);
  });
}

template std::int64_t convert_stored(const void*, hdf5::Type, const ArrayPacking&, std::int64_t, float*);
template std::int64_t convert_stored(const void*, hdf5::Type, const ArrayPacking&, std::int64_t, double*);
template std::int64_t convert_stored(const void*, hdf5::Type, const ArrayPacking&, std::int64_t, std::int32_t*);

double value_of(const void* element, hdf5::Type type, const ArrayPacking& packing) {
  double value = 0;
  convert_stored(element, type, packing, 1, &value);
  return value;
}

}  // namespace keelson::detail
