#pragma once

#include "backends/kokkos/pool/conv_max_pool_geometry.hpp"

/// The gradient of src of a convolution with max pooling: see conv_max_pool_geometry.hpp.
namespace keelson::kokkos {

/// Input channels that are processed at once: a panel has the channels of a vector, or of half a vector if there are
/// few.
constexpr Index panel_lanes_for(Index channels) {
  return vector_width == 1 || (vector_width > 4 && channels <= 4) ? 4 : vector_width;
}

/// The filters of each window in blocks of `filters_per_block`. The filters of a block are sorted by the argmax index
/// of their window: `begins` (window, block, argmax index + 1), then `filter` (its number in the block) and `value`
/// (window, filter).
struct SortedArgmax {
  Index blocks, filters_per_block;
  std::uint16_t *begins, *filter;
  float* value;
};

/// One work item per window.
struct SortArgmax {
  PooledGeometry g;
  const float* diff;
  const ArgmaxIndex* argmax;
  SortedArgmax to;

  KOKKOS_FUNCTION void operator()(Index window) const {
    for (Index b = 0; b < to.blocks; ++b) sort(window, b);
  }

 private:
  KOKKOS_FUNCTION void sort(Index window, Index block) const {
    const Index elements = g.window_elements(), first = block * to.filters_per_block;
    const Index count = g.filters - first < to.filters_per_block ? g.filters - first : to.filters_per_block;
    const Index from = window * g.filters + first;
    std::uint16_t next[256] = {};
    for (Index f = 0; f < count; ++f) ++next[argmax[from + f]];
    std::uint16_t* begins = to.begins + (window * to.blocks + block) * (elements + 1);
    std::uint16_t sum = 0;
    for (Index p = 0; p < elements; ++p) {
      const std::uint16_t some = next[p];
      begins[p] = next[p] = sum;
      sum = static_cast<std::uint16_t>(sum + some);
    }
    begins[elements] = sum;
    for (Index f = 0; f < count; ++f) {
      const Index at = from + next[argmax[from + f]]++;
      to.filter[at] = static_cast<std::uint16_t>(f);
      to.value[at] = diff[from + f];
    }
  }
};

/// The weights as (panel of `lanes` input channels, kD, filter, kH x kW, lane): the order in which a pass over a list
/// of filters reads them. One work item per (filter, kD, panel), in the order of the weights in memory. The weights
/// must be channels-last.
struct PackWeights {
  PooledGeometry g;
  Index lanes, panels;
  const float* weights;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index taps = g.kernel[1] * g.kernel[2], c = g.src.c;
    const Index panel = item % panels, kd = item / panels % g.kernel[0], f = item / (panels * g.kernel[0]);
    const Index valid = c - panel * lanes < lanes ? c - panel * lanes : lanes;
    const float* from = weights + item / panels * taps * c + panel * lanes;
    float* to = dst + ((panel * g.kernel[0] + kd) * g.filters + f) * taps * lanes;
    for (Index t = 0; t < taps; ++t, to += lanes, from += c) {
      if (lanes == vector_width && valid == lanes) {
        Lanes<vector_width> v;
        v.load(from);
        v.store(to);
        continue;
      }
      for (Index l = 0; l < valid; ++l) to[l] = from[l];
      for (Index l = valid; l < lanes; ++l) to[l] = 0;
    }
  }
};

/// diff_src of `lanes` channels in some planes (n, d). For each element of each window that reaches a plane: sums the
/// weights of the filters whose maximum is this element, for all taps of the plane, and adds the sums at the positions
/// of the taps. The weights of a block of filters stay in the first cache level while all windows use them.
template <int lanes>
struct PooledData {
  PooledGeometry g;
  SortedArgmax sorted;
  const float* weights;  ///< the result of PackWeights
  float* diff_src;
  Index panels, planes;  ///< planes: of a work item

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index depth = g.src.extent[0], chunks = ceil_div(depth, planes);
    const Index panel = item % panels, begin = item / panels % chunks * planes, n = item / (panels * chunks);
    const Index end = begin + planes < depth ? begin + planes : depth, c = panel * lanes;
    const int channels = static_cast<int>(g.src.c - c < lanes ? g.src.c - c : lanes);
    float* const image = diff_src + n * g.src.stride_n + c;
    for (Index d = begin; d < end; ++d) clear(image + d * g.src.stride[0], channels);
    const Index of_filter = g.kernel[1] * g.kernel[2] * lanes;
    for (Index kd = 0; kd < g.kernel[0]; ++kd)
      for (Index b = 0; b < sorted.blocks; ++b) {
        const float* w = weights + ((panel * g.kernel[0] + kd) * g.filters + b * sorted.filters_per_block) * of_filter;
        for (Index d = begin; d < end; ++d)
          add_plane(n, d + g.pad[0] - kd, b, w, image + d * g.src.stride[0], channels);
      }
  }

 private:
  /// Steps over the windows of one plane in order, and points to the filters of the next window.
  struct Cursor {
    const std::uint16_t* begins;  ///< of the window's elements in the plane
    Index from;                   ///< begins[p] counts from here
  };
  /// Some taps of a plane, and their offsets from the first tap in diff_src.
  template <int count>
  struct Taps {
    Index first, h[count], w[count], at[count];

    KOKKOS_FUNCTION Taps(const PooledGeometry& g, Index first_tap) : first(first_tap) {
      for (int t = 0; t < count; ++t) {
        h[t] = (first + t) / g.kernel[2];
        w[t] = (first + t) % g.kernel[2];
        at[t] = h[t] * g.src.stride[1] + w[t] * g.src.stride[2];
      }
    }
  };

  KOKKOS_FUNCTION void clear(float* plane, int channels) const {
    for (Index h = 0; h < g.src.extent[1]; ++h)
      for (Index w = 0; w < g.src.extent[2]; ++w)
        for (int l = 0; l < channels; ++l) plane[h * g.src.stride[1] + w * g.src.stride[2] + l] = 0;
  }
  /// Adds the terms of the positions in plane `at` of the convolution's result.
  KOKKOS_FUNCTION void add_plane(Index n, Index at, Index block, const float* w, float* plane, int channels) const {
    if (at < 0 || at >= g.windows[0] * g.window[0]) return;
    const Index first = (n * g.windows[0] + at / g.window[0]) * g.windows[1] * g.windows[2];
    const Index elements = g.window_elements(), in_d = at % g.window[0];
    const Cursor cursor{
        sorted.begins + (first * sorted.blocks + block) * (elements + 1) + in_d * g.window[1] * g.window[2],
        first * g.filters + block * sorted.filters_per_block};
    if (g.kernel[1] == 3 && g.kernel[2] == 3 && g.window[1] == 2 && g.window[2] == 2 && channels == lanes)
      return add_patches(cursor, w, plane);
    const Index taps = g.kernel[1] * g.kernel[2];
    Index tap = 0;
    for (; tap + 9 <= taps; tap += 9) add_taps(Taps<9>(g, tap), cursor, w, plane, channels);
    for (; tap + 4 <= taps; tap += 4) add_taps(Taps<4>(g, tap), cursor, w, plane, channels);
    for (; tap < taps; ++tap) add_taps(Taps<1>(g, tap), cursor, w, plane, channels);
  }
  KOKKOS_FUNCTION void advance(Cursor& cursor) const {
    cursor.begins += sorted.blocks * (g.window_elements() + 1);
    cursor.from += g.filters;
  }

  // --- Any kernel and window: the sums of one element of the window at a time.

  template <int count>
  KOKKOS_FUNCTION void add_taps(const Taps<count>& taps, Cursor cursor, const float* w, float* plane,
                                int channels) const {
    for (Index oh = 0; oh < g.windows[1]; ++oh)
      for (Index ow = 0; ow < g.windows[2]; ++ow, advance(cursor)) {
        const std::uint16_t* begin = cursor.begins;
        for (Index ph = 0; ph < g.window[1]; ++ph)
          for (Index pw = 0; pw < g.window[2]; ++pw, ++begin)
            if (begin[0] != begin[1])
              add_place(taps, cursor.from + begin[0], cursor.from + begin[1], w, plane,
                        oh * g.window[1] + ph - g.pad[1], ow * g.window[2] + pw - g.pad[2], channels);
      }
  }
  /// Adds the terms of the filters [begin, end) at one position, whose first tap is at (h, x).
  template <int count>
  KOKKOS_FORCEINLINE_FUNCTION void add_place(const Taps<count>& taps, Index begin, Index end, const float* w,
                                             float* plane, Index h, Index x, int channels) const {
    Lanes<lanes> acc[count];
    const float zero[lanes] = {};
    KEELSON_UNROLL
    for (int t = 0; t < count; ++t) acc[t].load(zero);
    const Index step = g.kernel[1] * g.kernel[2] * lanes;
    for (Index i = begin; i < end; ++i) {
      const float* wf = w + sorted.filter[i] * step + taps.first * lanes;
      const float v = sorted.value[i];
      KEELSON_UNROLL
      for (int t = 0; t < count; ++t) {
        Lanes<lanes> wt;
        wt.load(wf + t * lanes);
        acc[t].add_scaled(v, wt);
      }
    }
    float* const to = plane + h * g.src.stride[1] + x * g.src.stride[2];
    const bool inside = h >= 0 && h + g.kernel[1] <= g.src.extent[1] && x >= 0 && x + g.kernel[2] <= g.src.extent[2];
    if (inside && channels == lanes) {
      KEELSON_UNROLL
      for (int t = 0; t < count; ++t) add_to(to + taps.at[t], acc[t]);
    } else {
      float sums[count * lanes];
      KEELSON_UNROLL
      for (int t = 0; t < count; ++t) acc[t].store(sums + t * lanes);
      for (int t = 0; t < count; ++t)
        add_if_inside(sums + t * lanes, h + taps.h[t], x + taps.w[t], to + taps.at[t], channels);
    }
  }

  // --- Kernels of 3 x 3 and windows of 2 x 2: sums for the 4 x 4 positions that a window reaches stay in registers for
  // all elements of the window. The next window along W reaches half of these positions, too.

  using Patch = Lanes<lanes>[4][4];

  KOKKOS_FUNCTION void add_patches(Cursor cursor, const float* w, float* plane) const {
    for (Index oh = 0; oh < g.windows[1]; ++oh) {
      const Index h = oh * 2 - g.pad[1];
      Patch patch;
      clear_columns<0>(patch);
      clear_columns<2>(patch);
      Index x = -g.pad[2];
      for (Index ow = 0; ow < g.windows[2]; ++ow, x += 2, advance(cursor)) {
        add_to_patch<0, 0>(patch, cursor, w);
        add_to_patch<0, 1>(patch, cursor, w);
        add_to_patch<1, 0>(patch, cursor, w);
        add_to_patch<1, 1>(patch, cursor, w);
        add_first_columns(patch, h, x, plane);
        KEELSON_UNROLL
        for (int r = 0; r < 4; ++r) {
          patch[r][0] = patch[r][2];
          patch[r][1] = patch[r][3];
        }
        clear_columns<2>(patch);
      }
      add_first_columns(patch, h, x, plane);
    }
  }
  template <int first>
  KOKKOS_FORCEINLINE_FUNCTION static void clear_columns(Patch& patch) {
    const float zero[lanes] = {};
    KEELSON_UNROLL
    for (int r = 0; r < 4; ++r) {
      patch[r][first].load(zero);
      patch[r][first + 1].load(zero);
    }
  }
  template <int h, int x>
  KOKKOS_FORCEINLINE_FUNCTION void add_to_patch(Patch& patch, const Cursor& cursor, const float* w) const {
    const Index end = cursor.from + cursor.begins[2 * h + x + 1];
    for (Index i = cursor.from + cursor.begins[2 * h + x]; i < end; ++i) {
      const float* const wf = in_register(w + sorted.filter[i] * Index{9 * lanes});
      const float v = sorted.value[i];
      KEELSON_UNROLL
      for (int t = 0; t < 9; ++t) {
        Lanes<lanes> wt;
        wt.load(wf + t * lanes);
        patch[h + t / 3][x + t % 3].add_scaled(v, wt);
      }
    }
  }
  /// Adds the first two columns of a patch at (h, x).
  KOKKOS_FORCEINLINE_FUNCTION void add_first_columns(const Patch& patch, Index h, Index x, float* plane) const {
    float* const to = plane + h * g.src.stride[1] + x * g.src.stride[2];
    if (h >= 0 && h + 4 <= g.src.extent[1] && x >= 0 && x + 2 <= g.src.extent[2]) {
      KEELSON_UNROLL
      for (int i = 0; i < 8; ++i) add_to(to + i / 2 * g.src.stride[1] + i % 2 * g.src.stride[2], patch[i / 2][i % 2]);
    } else {
      float sums[8 * lanes];
      KEELSON_UNROLL
      for (int i = 0; i < 8; ++i) patch[i / 2][i % 2].store(sums + i * lanes);
      for (int i = 0; i < 8; ++i)
        add_if_inside(sums + i * lanes, h + i / 2, x + i % 2, to + i / 2 * g.src.stride[1] + i % 2 * g.src.stride[2],
                      lanes);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_to(float* to, Lanes<lanes> sum) {
    Lanes<lanes> old;
    old.load(to);
    sum.add_scaled(1.0f, old);
    sum.store(to);
  }
  KOKKOS_FUNCTION void add_if_inside(const float* sums, Index h, Index x, float* to, int channels) const {
    if (h < 0 || h >= g.src.extent[1] || x < 0 || x >= g.src.extent[2]) return;
    for (int l = 0; l < channels; ++l) to[l] += sums[l];
  }
};

}  // namespace keelson::kokkos
