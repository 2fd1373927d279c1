#pragma once

#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/common/vector_math.hpp"

/// What the kernels of attention share.
namespace keelson::kokkos {

inline constexpr int widest_head = 256;  ///< columns of a head, which a work item keeps in arrays of its own

struct AttentionShape {
  Index samples, steps, heads, width;
  bool causal;
  float scale;

  KOKKOS_FUNCTION Index features() const { return heads * width; }
  KOKKOS_FUNCTION Index lines() const { return samples * steps * heads; }
};

/// The steps of one head of one sample.
struct Head {
  Index sample, head;
  /// Offset of a step in queries, keys, values.
  KOKKOS_FUNCTION Index at(const AttentionShape& s, Index step) const {
    return (sample * s.steps + step) * s.features() + head * s.width;
  }
  /// Offset of a step in arrays of one number per step and head.
  KOKKOS_FUNCTION Index line(const AttentionShape& s, Index step) const {
    return (sample * s.steps + step) * s.heads + head;
  }
};

/// Splits the head off an item's number, of which `count` belong to each head.
KOKKOS_INLINE_FUNCTION Head head_of(const AttentionShape& s, Index count, Index& item) {
  const Index number = item / count;
  item -= number * count;
  return {number / s.heads, number % s.heads};
}

/// The operands, as the kernels read and write them.
template <class T>
struct AttentionArrays {
  const T *query = nullptr, *key = nullptr, *value = nullptr;
  T* dst = nullptr;
  float* saved = nullptr;

  const T* diff_dst = nullptr;
  T *diff_query = nullptr, *diff_key = nullptr, *diff_value = nullptr;
  float* dots = nullptr;  ///< dot(dst, diff_dst) of each step and head
};

}  // namespace keelson::kokkos
