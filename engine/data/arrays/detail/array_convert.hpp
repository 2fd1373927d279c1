#pragma once

#include <cstdint>

#include "engine/data/arrays/array_file.hpp"

namespace keelson::detail {

/// Turns the order of the bytes of each of `n` elements of `size` bytes.
void swap_bytes(void* elements, std::int64_t size, std::int64_t n);

/// Whether the elements, in this machine's order of bytes, are numbers of T in memory.
template <class T>
bool is_plain(const ArrayInfo& array) {
  return array.type == hdf5::type_of<T>() && array.packing == ArrayPacking{};
}

/// Converts `n` stored elements of `type`, in this machine's order of bytes; T is float, double or std::int32_t.
/// Returns the index of the first element that T cannot hold (std::int32_t: missing, not whole or out of range), or -1.
template <class T>
std::int64_t convert_stored(const void* src, hdf5::Type type, const ArrayPacking& packing, std::int64_t n, T* dst);

/// A stored element as a value; NaN if it is missing. Floating point is exact.
double value_of(const void* element, hdf5::Type type, const ArrayPacking& packing);

}  // namespace keelson::detail
