#pragma once

#include <algorithm>

#include "backends/kokkos/common/merged_launches.hpp"
#include "engine/ops/loss_scale.hpp"

/// The common part of the kernels of optimizers: they process flat arrays of one dense layout.
namespace keelson::kokkos {

/// Whether this step leaves parameters and moments unchanged.
KOKKOS_INLINE_FUNCTION bool skips(const ops::LossScale* scale) { return scale && scale->skip; }

/// The factor of gradients: 1 / loss scale, then the factor of the global clip. `squares`: sums of squares of all
/// gradients, read only if clip_norm > 0.
KOKKOS_INLINE_FUNCTION double gradient_factor(const ops::LossScale* scale, float clip_norm, const double* squares,
                                              int count) {
  double factor = scale ? scale->unscale : 1.0f;
  if (clip_norm <= 0) return factor;
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += squares[i];
  const double norm = factor * Kokkos::sqrt(sum);
  if (norm > clip_norm) factor *= clip_norm / norm;
  return factor;
}

/// Adam's bias correction, 1 / (1 - beta^t), t = steps done + 1.
KOKKOS_INLINE_FUNCTION float bias_correction(float beta, std::uint64_t steps_done) {
  const double t = static_cast<double>(steps_done) + 1;
  return static_cast<float>(1 / (1 - Kokkos::pow(static_cast<double>(beta), t)));
}

/// On a CPU an item's elements are contiguous. On a GPU they are `apart` elements apart, between those of other items.
KOKKOS_INLINE_FUNCTION Index next_element(Index apart) { return runs_on_host ? 1 : apart; }

/// On a GPU: `items` work items share `elements`.
template <class Body>
struct StridedItems {
  Body body;
  Index elements, items;
  KOKKOS_FUNCTION void operator()(Index i) const { body(i, elements, items); }
};

/// Calls body(begin, end, apart) so that all elements are visited: begin, begin + next_element(apart), ... below end.
template <class Body>
void for_flat_elements(const char* label, Index elements, const Body& body) {
  if constexpr (runs_on_host) {
    for_each_block(label, elements, body, 16384);
  } else {
    // Each item has up to 16 elements, but there are enough items for the whole GPU.
    constexpr Index many = Index{1} << 17, most_each = 16;
    const Index items = ceil_div(elements, std::clamp<Index>(elements / many, 1, most_each));
    launch_merging(label, items, StridedItems<Body>{body, elements, items});
  }
}

}  // namespace keelson::kokkos
