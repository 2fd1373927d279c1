#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/tensor/shape.hpp"

namespace keelson {

/// Calls f(element) for all elements of an array whose index along `dim` is `index`, in plain order.
template <class F>
void for_each_at(const Shape& shape, int dim, std::int64_t index, F f) {
  std::int64_t before = 1, behind = 1;
  for (int d = 0; d < dim; ++d) before *= shape[d];
  for (int d = dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  for (std::int64_t b = 0; b < before; ++b)
    for (std::int64_t i = 0; i < behind; ++i) f(static_cast<std::size_t>((b * shape[dim] + index) * behind + i));
}

/// Index of an element along `dim`.
inline std::int64_t index_along(const Shape& shape, int dim, std::size_t element) {
  std::int64_t behind = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  return static_cast<std::int64_t>(element) / behind % shape[dim];
}

}  // namespace keelson
