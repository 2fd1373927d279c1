#pragma once

#include "backends/kokkos/pool/conv_max_pool_geometry.hpp"

/// The gradient of the weights of a convolution with max pooling: see conv_max_pool_geometry.hpp.
namespace keelson::kokkos {

/// Divides the channels and the taps along W into runs of vectors. If src has at least as many channels as a vector,
/// channels are processed in panels of `channels`; else a run has all channels. A run is divided into segments, and the
/// sums of some segments are in registers at once.
struct PooledRuns {
  Index channels, panels;  ///< channels: of a panel
  Index run, padded;       ///< floats of a run: taps along W times channels; filled up to whole vectors
  Index vectors, per_run;  ///< vectors of a segment, segments of a run
  Index segments;          ///< segments whose sums are in registers at once

  explicit PooledRuns(const PooledGeometry& g);
  KOKKOS_FUNCTION bool has_few_channels() const { return channels < panel; }

  static constexpr Index panel = vector_width == 1 ? 4 : vector_width;
  static constexpr Index budget = vector_width == 16 ? 27 : 12;  ///< accumulators beside the operands
};
/// The number of segments of `vectors` vectors whose sums fit into the registers.
constexpr int segments_at_once(int vectors) {
  for (int s : {9, 6, 3, 2})
    if (s * vectors <= PooledRuns::budget) return s;
  return 1;
}

/// A box of windows, and a copy in the first cache level of the part of src that the windows reach, with zeros around
/// it. With many channels the copy has a panel of channels: (d, h, w, channel). With few channels there is a run for
/// each window and window element along W, so that no vector crosses a cache line: (element along W, d, h, window,
/// run).
struct PooledTile {
  static constexpr Index most_windows = 32;

  Triple windows;  ///< the largest number of windows in a tile
  Triple count;    ///< tiles along the dims
  /// floats from one position, window, or window element along W to the next
  Index step_d, step_h, step_window, step_w;
  Index floats;

  PooledTile(const PooledGeometry& g, const PooledRuns& runs);
  KOKKOS_FUNCTION Index in_batch(Index n) const { return n * count[0] * count[1] * count[2]; }

 private:
  void shape(const PooledGeometry& g, const PooledRuns& runs);
};

/// diff_weights[o][tap][c] = sum over windows of diff[window][o] * src[position of the maximum + tap][c]. A worker
/// processes its items one after the other. An item has a slot of the tiles, a panel of channels and a part of the
/// filters.
struct PooledWeights {
  PooledGeometry g;
  PooledRuns runs;
  PooledTile tile;
  const float *src, *src_end, *diff;
  const ArgmaxIndex* argmax;
  Index slots, parts, workers;
  float* near;     ///< (worker, copy of a tile's source)
  float* sums;     ///< (worker, filter of a part, kD x kH, padded run)
  float* weights;  ///< (slot, filter, kD x kH x kW, channel)
  double* bias;    ///< (slot, filter): sums of diff; null: not needed

  KOKKOS_FUNCTION Index filters_per_part() const { return ceil_div(g.filters, parts); }
  KOKKOS_FUNCTION Index rows() const { return g.kernel[0] * g.kernel[1]; }
  KOKKOS_FUNCTION Index sums_per_worker() const { return filters_per_part() * rows() * runs.padded; }
};

template <int segments, int vectors>
struct PooledWeightsWorker {
  static constexpr int width = vectors * vector_width;
  PooledWeights k;

  KOKKOS_FUNCTION void operator()(Index worker) const {
    const Index items = k.slots * k.runs.panels * k.parts;
    float* const near = k.near + worker * k.tile.floats;
    float* const sums = k.sums + worker * k.sums_per_worker();
    for (Index i = items * worker / k.workers; i < items * (worker + 1) / k.workers; ++i) {
      const Index slot = i / (k.runs.panels * k.parts);
      run({slot, i / k.parts % k.runs.panels, i % k.parts * k.filters_per_part()}, near, sums);
    }
  }

 private:
  static constexpr int most_rows = 16;  ///< of a tile's windows
  static constexpr Index line_floats = 16;

  struct Item {
    Index slot, panel, filter;
  };
  /// Neighbouring windows along W: the first window, and the offset of its source in the copy.
  struct WindowRow {
    Index window, corner;
  };
  struct Windows {
    Index n;
    Triple first, count;
    WindowRow row[most_rows];
    int rows;
  };
  /// What some filters add for each window of a tile: the gradient, and where its source begins in the copy.
  struct Terms {
    std::int32_t corner[PooledTile::most_windows][line_floats];
    float diff[PooledTile::most_windows][line_floats];
    int windows;
  };

  KOKKOS_FUNCTION static Index smaller(Index a, Index b) { return a < b ? a : b; }

  KOKKOS_FUNCTION void run(const Item& item, float* near, float* sums) const {
    const Index filters = smaller(k.filters_per_part(), k.g.filters - item.filter);
    if (filters <= 0) return;
    std::int32_t element_offset[256];
    for (Index p = 0; p < k.g.window_elements(); ++p) {
      const Triple at = k.g.coordinates(p);
      element_offset[p] =
          static_cast<std::int32_t>(at[0] * k.tile.step_d + at[1] * k.tile.step_h + at[2] * k.tile.step_w);
    }
    for (Index i = 0; i < filters * k.rows() * k.runs.padded; ++i) sums[i] = 0;
    double* const bias = k.bias && item.panel == 0 ? k.bias + item.slot * k.g.filters + item.filter : nullptr;
    if (bias)
      for (Index f = 0; f < filters; ++f) bias[f] = 0;
    const Index tiles = k.tile.in_batch(k.g.n);
    Terms terms;
    for (Index t = tiles * item.slot / k.slots; t < tiles * (item.slot + 1) / k.slots; ++t) {
      const Windows w = windows_of(t);
      const Windows next = windows_of(t + 1 < tiles ? t + 1 : t);
      prefetch_gradient(next, item.filter, filters);
      fill(w, next, item.panel, near);
      for (Index f = 0; f < filters; f += line_floats) {
        const Index some = smaller(line_floats, filters - f);
        gather(w, item.filter + f, some, element_offset, terms);
        add(terms, some, near, sums + f * k.rows() * k.runs.padded);
      }
      if (bias) add_bias(w, item.filter, filters, bias);
    }
    write(item, filters, sums);
  }

  KOKKOS_FUNCTION Windows windows_of(Index tile) const {
    Windows w;
    const auto& count = k.tile.count;
    const Triple at = {tile / (count[1] * count[2]) % count[0], tile / count[2] % count[1], tile % count[2]};
    w.n = tile / k.tile.in_batch(1);
    for (int d = 0; d < 3; ++d) {
      w.first[d] = at[d] * k.tile.windows[d];
      w.count[d] = smaller(k.tile.windows[d], k.g.windows[d] - w.first[d]);
    }
    w.rows = 0;
    for (Index d = 0; d < w.count[0]; ++d)
      for (Index h = 0; h < w.count[1]; ++h) {
        const Index plane = w.n * k.g.windows[0] + w.first[0] + d, line = plane * k.g.windows[1] + w.first[1] + h;
        w.row[w.rows++] = {line * k.g.windows[2] + w.first[2],
                           d * k.g.window[0] * k.tile.step_d + h * k.g.window[1] * k.tile.step_h};
      }
    return w;
  }

  KOKKOS_FUNCTION void prefetch_gradient(const Windows& w, Index filter, Index filters) const {
    for (int r = 0; r < w.rows; ++r)
      for (Index i = 0; i < w.count[2]; ++i) {
        const Index first = (w.row[r].window + i) * k.g.filters + filter;
        prefetch(k.argmax + first);
        for (Index f = 0; f < filters; f += line_floats) prefetch(k.diff + first + f);
      }
  }

  // --- The copy of a tile's source.

  /// `next`: the tile after this one; its source is prefetched.
  KOKKOS_FUNCTION void fill(const Windows& w, const Windows& next, Index panel, float* near) const {
    const Index depth = w.count[0] * k.g.window[0] + k.g.kernel[0] - 1;
    const Index height = w.count[1] * k.g.window[1] + k.g.kernel[1] - 1;
    for (Index d = 0; d < depth; ++d)
      for (Index h = 0; h < height; ++h) {
        const float *const row = row_of(w, d, h), *const ahead = row_of(next, d, h);
        float* const to = near + d * k.tile.step_d + h * k.tile.step_h;
        if (k.runs.has_few_channels())
          fill_runs(w, next, row, ahead, to);
        else
          fill_panel(w, next, row, ahead, panel, to);
      }
  }
  /// Row (d, h) of the part of src that a tile reaches; null: outside of src.
  KOKKOS_FUNCTION const float* row_of(const Windows& w, Index d, Index h) const {
    d += w.first[0] * k.g.window[0] - k.g.pad[0], h += w.first[1] * k.g.window[1] - k.g.pad[1];
    if (d < 0 || d >= k.g.src.extent[0] || h < 0 || h >= k.g.src.extent[1]) return nullptr;
    return k.src + w.n * k.g.src.stride_n + d * k.g.src.stride[0] + h * k.g.src.stride[1];
  }
  /// The first column of a tile's source.
  KOKKOS_FUNCTION Index column_of(const Windows& w) const { return w.first[2] * k.g.window[2] - k.g.pad[2]; }
  KOKKOS_FUNCTION void fill_panel(const Windows& w, const Windows& next, const float* row, const float* ahead,
                                  Index panel, float* to) const {
    const Index first = column_of(w), c = panel * k.runs.channels, step = k.g.src.stride[2];
    const Index length = w.count[2] * k.g.window[2] + k.g.kernel[2] - 1;
    const Index valid = smaller(k.runs.channels, k.g.src.c - c);
    if (ahead) ahead += column_of(next) * step + c;
    for (Index i = 0; i < length; ++i, to += PooledRuns::panel) {
      if (ahead) prefetch(ahead + i * step);
      const Index x = first + i;
      const bool inside = row && x >= 0 && x < k.g.src.extent[2];
      const float* const from = row + (inside ? x * step + c : 0);
      if (inside && valid == PooledRuns::panel) {
        Lanes<PooledRuns::panel> v;
        v.load(from);
        v.store(to);
        continue;
      }
      const Index some = inside ? valid : 0;
      for (Index l = 0; l < some; ++l) to[l] = from[l];
      for (Index l = some; l < PooledRuns::panel; ++l) to[l] = 0;
    }
  }
  KOKKOS_FUNCTION void fill_runs(const Windows& w, const Windows& next, const float* row, const float* ahead,
                                 float* to) const {
    const Index c = k.g.src.c, first = column_of(w), step = k.g.window[2] * c;
    for (Index i = 0; ahead && i < w.count[2] * step; i += line_floats) prefetch(ahead + column_of(next) * c + i);
    const Index last = first + w.count[2] * k.g.window[2] - 1, length = k.runs.padded;
    const bool inside =
        row && first >= 0 && last + k.g.kernel[2] <= k.g.src.extent[2] && row + last * c + length <= k.src_end;
    for (Index element = 0; element < k.g.window[2]; ++element, to += k.tile.step_w) {
      if (!inside) {
        for (Index i = 0; i < w.count[2]; ++i)
          fill_run(row, first + element + i * k.g.window[2], to + i * k.tile.step_window);
        continue;
      }
      const float* from = row + (first + element) * c;
      float* at = to;
      for (Index i = 0; i < w.count[2]; ++i, from += step)
        for (Index l = 0; l < length; l += vector_width, at += vector_width) copy_vector(from + l, at);
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION static void copy_vector(const float* from, float* to) {
    Lanes<vector_width> v;
    v.load(from);  // values after the run's end go to sums that are not used
    v.store(to);
  }
  KOKKOS_FUNCTION void fill_run(const float* row, Index x, float* to) const {
    const Index c = k.g.src.c, length = k.runs.padded;
    if (row && x >= 0 && x + k.g.kernel[2] <= k.g.src.extent[2] && row + x * c + length <= k.src_end) {
      for (Index l = 0; l < length; l += vector_width) copy_vector(row + x * c + l, to + l);
      return;
    }
    for (Index l = 0; l < length; ++l) to[l] = 0;
    const Index end = row ? smaller(k.g.kernel[2], k.g.src.extent[2] - x) * c : 0;
    for (Index l = x < 0 ? -x * c : 0; l < end; ++l) to[l] = row[x * c + l];
  }

  // --- Sums.

  KOKKOS_FUNCTION void gather(const Windows& w, Index filter, Index filters, const std::int32_t* element_offset,
                              Terms& terms) const {
    int window = 0;
    for (int r = 0; r < w.rows; ++r)
      for (Index i = 0; i < w.count[2]; ++i, ++window) {
        const Index first = (w.row[r].window + i) * k.g.filters + filter;
        const auto corner = static_cast<std::int32_t>(w.row[r].corner + i * k.tile.step_window);
        const auto gather_some = [&](Index count) {
          std::int32_t at[line_floats];  // the compiler knows that nothing else writes here
          for (Index f = 0; f < count; ++f) at[f] = corner + element_offset[k.argmax[first + f]];
          for (Index f = 0; f < count; ++f) {
            terms.corner[window][f] = at[f];
            terms.diff[window][f] = k.diff[first + f];
          }
        };
        if (filters == line_floats)
          gather_some(line_floats);
        else
          gather_some(filters);
      }
    terms.windows = window;
  }
  KOKKOS_FUNCTION void add(const Terms& terms, Index filters, const float* near, float* sums) const {
    const Index all = k.rows() * k.runs.per_run;
    Index s = 0;
    for (; s + segments <= all; s += segments) add_segments<segments>(terms, s, filters, near, sums);
    if constexpr (segments > 3)
      for (; s + 3 <= all; s += 3) add_segments<3>(terms, s, filters, near, sums);
    for (; s < all; ++s) add_segments<1>(terms, s, filters, near, sums);
  }
  /// Adds the windows to `count` segments of the filters' sums.
  template <int count>
  KOKKOS_FUNCTION void add_segments(const Terms& terms, Index segment, Index filters, const float* near,
                                    float* sums) const {
    Index at[count];
    for (int s = 0; s < count; ++s) {
      const Index row = (segment + s) / k.runs.per_run;
      at[s] = row / k.g.kernel[1] * k.tile.step_d + row % k.g.kernel[1] * k.tile.step_h +
              (segment + s) % k.runs.per_run * width;
    }
    const Index all = k.rows() * k.runs.per_run;
    for (Index f = 0; f < filters; ++f) {
      float* const sum = sums + (f * all + segment) * width;
      Lanes<width> acc[count];
      KEELSON_UNROLL
      for (int s = 0; s < count; ++s) acc[s].load(sum + s * width);
      for (int window = 0; window < terms.windows; ++window) {
        const float* const x = near + terms.corner[window][f];
        const float diff = terms.diff[window][f];
        KEELSON_UNROLL
        for (int s = 0; s < count; ++s) {
          Lanes<width> v;
          v.load(x + at[s]);
          acc[s].add_scaled(diff, v);
        }
      }
      KEELSON_UNROLL
      for (int s = 0; s < count; ++s) acc[s].store(sum + s * width);
    }
  }
  KOKKOS_FUNCTION void add_bias(const Windows& w, Index filter, Index filters, double* bias) const {
    constexpr int at_once = 16;
    Index f = 0;
    for (; f + at_once <= filters; f += at_once) add_bias_of<at_once>(w, filter + f, bias + f);
    for (; f < filters; ++f) add_bias_of<1>(w, filter + f, bias + f);
  }
  template <int count>
  KOKKOS_FUNCTION void add_bias_of(const Windows& w, Index filter, double* bias) const {
    double sum[count];
    for (int i = 0; i < count; ++i) sum[i] = bias[i];
    for (int r = 0; r < w.rows; ++r) {
      const float* diff = k.diff + w.row[r].window * k.g.filters + filter;
      for (Index i = 0; i < w.count[2]; ++i, diff += k.g.filters)
        for (int j = 0; j < count; ++j) sum[j] += static_cast<double>(diff[j]);
    }
    for (int i = 0; i < count; ++i) bias[i] = sum[i];
  }
  KOKKOS_FUNCTION void write(const Item& item, Index filters, const float* sums) const {
    const Index c = item.panel * k.runs.channels, valid = smaller(k.runs.channels, k.g.src.c - c);
    constexpr Index lines_ahead = 24;
    const Index taps = k.rows() * k.g.kernel[2];
    float* to = k.weights + (item.slot * k.g.filters + item.filter) * taps * k.g.src.c + c;
    for (Index r = 0; r < filters * k.rows(); ++r)
      for (Index kw = 0; kw < k.g.kernel[2]; ++kw, to += k.g.src.c) {
        prefetch(to + lines_ahead * k.g.src.c);
        const float* const from = sums + r * k.runs.padded + kw * k.runs.channels;
        if (valid == PooledRuns::panel) {
          Lanes<PooledRuns::panel> v;
          v.load(from);
          v.store(to);
          continue;
        }
        for (Index i = 0; i < valid; ++i) to[i] = from[i];
      }
  }
};

}  // namespace keelson::kokkos
