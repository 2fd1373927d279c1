#pragma once

#include "backends/kokkos/conv_geometry.hpp"
#include "backends/kokkos/tile.hpp"

/// Gradients of a convolution behind max pooling, from the pooled gradient and the argmax indices of the windows.
/// Stride and dilation 1, one group, windows side by side; the pooled tensors have channels last. A position below is
/// one of the convolution's result: window * extent of a window + argmax index.
namespace keelson::kokkos {

using ArgmaxIndex = std::uint8_t;  ///< place in the window, row by row, as max pooling leaves it in its workspace

struct PooledGeometry {
  Volume src;
  Index filters, n;
  Triple kernel, pad, window, windows;  ///< windows: extents of the pooled tensor

  Index window_count() const { return n * windows[0] * windows[1] * windows[2]; }
  KOKKOS_FUNCTION Index places() const { return window[0] * window[1] * window[2]; }
  KOKKOS_FUNCTION Triple place(Index p) const {
    return {p / (window[1] * window[2]), p / window[2] % window[1], p % window[2]};
  }
};

inline constexpr int windows_at_once = 16;    ///< whose part of src stays in the first cache level
inline constexpr int windows_of_block = 128;  ///< and in the second

/// diff_weights[o][tap][c] = sum over windows of diff[window][o] * src[position of the maximum + tap][c]. The taps
/// along W and the channels are one run of src; runs are cut into segments of `vectors` vectors, of which `segments`
/// fit the registers. A work item has a part of the filters and a slot of the windows.
struct PooledWeights {
  PooledGeometry g;
  ChannelView src;  ///< with zeros around it, and readable for a vector past each run
  const float* diff;
  const ArgmaxIndex* argmax;
  Index segments_per_run;
  Index parts, filters_per_part, slots, windows_per_slot;
  float* sums;  ///< (slot, filter, kD x kH, segment, lane)
};

template <int segments, int vectors>
struct PooledWeightsItem {
  static constexpr int width = vectors * vector_width;
  PooledWeights k;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index slot = item / k.parts, first_filter = item % k.parts * k.filters_per_part;
    const Index end_filter = smaller(first_filter + k.filters_per_part, k.g.filters);
    const Index all = k.g.kernel[0] * k.g.kernel[1] * k.segments_per_run;
    float* const sums = k.sums + slot * k.g.filters * all * width;
    for (Index i = first_filter * all * width; i < end_filter * all * width; ++i) sums[i] = 0;

    Index at_place[256];
    for (Index p = 0; p < k.g.places(); ++p) {
      const Triple d = k.g.place(p);
      at_place[p] = d[0] * k.src.step[0] + d[1] * k.src.step[1] + d[2] * k.src.step[2];
    }
    const Index begin = slot * k.windows_per_slot, end = smaller(begin + k.windows_per_slot, windows());
    for (Index block = begin; block < end; block += windows_of_block) {
      const Index block_end = smaller(block + windows_of_block, end);
      Index segment = 0;
      for (; segment + segments <= all; segment += segments)
        add_block<segments>(block, block_end, segment, first_filter, end_filter, at_place, sums);
      for (; segment < all; ++segment)
        add_block<1>(block, block_end, segment, first_filter, end_filter, at_place, sums);
    }
  }

 private:
  KOKKOS_FUNCTION static Index smaller(Index a, Index b) { return a < b ? a : b; }
  KOKKOS_FUNCTION Index windows() const { return k.g.n * k.g.windows[0] * k.g.windows[1] * k.g.windows[2]; }
  KOKKOS_FUNCTION Index source_of(Index segment) const {
    const Index row = segment / k.segments_per_run;
    return row / k.g.kernel[1] * k.src.step[0] + row % k.g.kernel[1] * k.src.step[1] +
           segment % k.segments_per_run * width;
  }
  /// Source of the first tap at the window's first position.
  KOKKOS_FUNCTION const float* corner_of(Index window) const {
    const auto& e = k.g.windows;
    const Index w = window % e[2], h = window / e[2] % e[1], d = window / (e[2] * e[1]) % e[0];
    return k.src.data + k.src.base + window / (e[2] * e[1] * e[0]) * k.src.step_n +
           (d * k.g.window[0] - k.g.pad[0]) * k.src.step[0] + (h * k.g.window[1] - k.g.pad[1]) * k.src.step[1] +
           (w * k.g.window[2] - k.g.pad[2]) * k.src.step[2];
  }

  /// Adds the windows of a block to `count` segments of some filters' sums.
  template <int count>
  KOKKOS_FUNCTION void add_block(Index block, Index block_end, Index segment, Index filter, Index end_filter,
                                 const Index* at_place, float* sums) const {
    const Index all = k.g.kernel[0] * k.g.kernel[1] * k.segments_per_run;
    Index at[count];
    for (int s = 0; s < count; ++s) at[s] = source_of(segment + s);
    for (Index first = block; first < block_end; first += windows_at_once) {
      const int some = static_cast<int>(smaller(block_end - first, windows_at_once));
      const float* corner[windows_at_once];
      for (int i = 0; i < some; ++i) corner[i] = corner_of(first + i);
      const float* diff = k.diff + first * k.g.filters;
      const ArgmaxIndex* argmax = k.argmax + first * k.g.filters;
      for (Index f = filter; f < end_filter; ++f) {
        const float* x[windows_at_once];
        for (int i = 0; i < some; ++i) x[i] = corner[i] + at_place[argmax[i * k.g.filters + f]];
        add_windows<count>(sums + (f * all + segment) * width, x, at, diff + f, some);
      }
    }
  }
  template <int count>
  KOKKOS_FUNCTION void add_windows(float* sums, const float* const* x, const Index* at, const float* diff,
                                   int some) const {
    Lanes<width> acc[count];
    KEELSON_UNROLL
    for (int s = 0; s < count; ++s) acc[s].load(sums + s * width);
    for (int i = 0; i < some; ++i) {
      const float g = diff[i * k.g.filters];
      KEELSON_UNROLL
      for (int s = 0; s < count; ++s) {
        Lanes<width> v;
        v.load(x[i] + at[s]);
        acc[s].add_scaled(g, v);
      }
    }
    KEELSON_UNROLL
    for (int s = 0; s < count; ++s) acc[s].store(sums + s * width);
  }
};

/// Adds the slots, without what lies behind the runs; one work item per run.
struct AddPooledSlots {
  const float* sums;
  float* weights;
  Index slots, slot_size, run, padded;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const float* from = sums + item * padded;
    float* to = weights + item * run;
    for (Index i = 0; i < run; ++i) to[i] = from[i];
    for (Index s = 1; s < slots; ++s)
      for (Index i = 0; i < run; ++i) to[i] += from[s * slot_size + i];
  }
};

}  // namespace keelson::kokkos
