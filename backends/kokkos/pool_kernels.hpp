#pragma once

#include "backends/kokkos/common.hpp"

/// Pooling on (N, C, D, H, W) with any strides. A work item takes a run of neighbouring windows: over the channels of
/// one position where channels are contiguous, else over positions along W.
namespace keelson::kokkos {

struct PoolGeometry {
  Volume src, dst;
  Kokkos::Array<Index, 3> kernel, stride, pad;
  bool count_padding;

  /// Elements of the window at `begin` that lie inside the input, along dim `d`.
  KOKKOS_FUNCTION void clip(int d, Index begin, Index& first, Index& last) const {
    first = begin < 0 ? 0 : begin;
    last = begin + kernel[d] < src.extent[d] ? begin + kernel[d] : src.extent[d];
  }

  KOKKOS_FUNCTION float average_factor(const Index (&first)[3], const Index (&last)[3]) const {
    Index count = 1;
    for (int d = 0; d < 3; ++d) count *= count_padding ? kernel[d] : last[d] - first[d];
    return 1.0f / static_cast<float>(count);
  }
};

inline constexpr int pool_lanes = runs_on_host ? 16 : 1;

/// `count` neighbouring elements of a volume: channel + l or at[2] + l.
struct PoolRun {
  Index n, channel, at[3], count;

  KOKKOS_FUNCTION Index offset(const Volume& v) const {
    return n * v.stride_n + channel * v.stride_c + at[0] * v.stride[0] + at[1] * v.stride[1] + at[2] * v.stride[2];
  }
};

/// Calls k.window<lanes>(run) for the whole run where its windows are alike, else for one element after the other.
template <class Kernel>
KOKKOS_FUNCTION void pool_run(const Kernel& k, PoolRun run) {
  const bool alike = k.over_channels || k.alike(run);
  if (run.count == pool_lanes && alike) return k.template window<pool_lanes>(run);
  for (; run.count > 0; --run.count, ++(k.over_channels ? run.channel : run.at[2])) k.template window<1>(run);
}

/// How a volume is cut into work items: all runs of one (n, d, h) on a CPU, where decoding an item costs as much as a
/// run; single elements on a GPU.
struct PoolItems {
  Index length, others, runs;  ///< of one (n, d, h): extent along the runs, across them, and runs along the former

  KOKKOS_FUNCTION PoolItems(const Volume& v, bool over_channels)
      : length(over_channels ? v.c : v.extent[2]),
        others(over_channels ? v.extent[2] : v.c),
        runs(ceil_div(length, pool_lanes)) {}
  Index count(const Volume& v) const { return v.n * v.extent[0] * v.extent[1] * (runs_on_host ? 1 : others * runs); }
};

template <class Kernel>
KOKKOS_FUNCTION void pool_item(const Kernel& k, const Volume& v, Index item) {
  const PoolItems items(v, k.over_channels);
  Index first_run = 0, end_run = items.runs, first_other = 0, end_other = items.others;
  if constexpr (!runs_on_host) {
    first_run = item % items.runs, end_run = first_run + 1;
    item /= items.runs;
    first_other = item % items.others, end_other = first_other + 1;
    item /= items.others;
  }
  PoolRun run{};
  run.at[1] = item % v.extent[1];
  item /= v.extent[1];
  run.at[0] = item % v.extent[0];
  run.n = item / v.extent[0];
  for (Index other = first_other; other < end_other; ++other)
    for (Index r = first_run; r < end_run; ++r) {
      const Index first = r * pool_lanes;
      run.channel = k.over_channels ? first : other;
      run.at[2] = k.over_channels ? other : first;
      run.count = first + pool_lanes < items.length ? pool_lanes : items.length - first;
      pool_run(k, run);
    }
}

template <int lanes>
KOKKOS_INLINE_FUNCTION void load_lanes(const float* x, Index lane, float (&v)[lanes]) {
  if (lane == 1) KEELSON_KEEP_LOOP
  for (int l = 0; l < lanes; ++l) v[l] = x[l];
  else KEELSON_KEEP_LOOP for (int l = 0; l < lanes; ++l) v[l] = x[l * lane];
}

/// What forward and window-wise backward share: a run of windows, each stepping through its own part of src.
struct PoolWindows {
  PoolGeometry g;
  bool over_channels;

  /// Elements between the lanes of a run, in src and in dst.
  KOKKOS_FUNCTION Index src_lane() const { return over_channels ? g.src.stride_c : g.stride[2] * g.src.stride[2]; }
  KOKKOS_FUNCTION Index dst_lane() const { return over_channels ? g.dst.stride_c : g.dst.stride[2]; }
  /// Whether no window of a run along W is cut by the border.
  KOKKOS_FUNCTION bool alike(const PoolRun& run) const {
    const Index first = run.at[2] * g.stride[2] - g.pad[2];
    return first >= 0 && first + (run.count - 1) * g.stride[2] + g.kernel[2] <= g.src.extent[2];
  }
};

/// dst = largest element, chosen = its number within the window (d, h, w; w fastest). `Chosen` is u8 or s32; null where
/// nobody asks.
template <class Chosen>
struct MaxForward : PoolWindows {
  const float* src;
  float* dst;
  Chosen* chosen;

  MaxForward(const PoolWindows& w, const float* x, float* y, Chosen* c) : PoolWindows(w), src(x), dst(y), chosen(c) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, g.dst, item); }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun& p) const {
    Index begin[3], first[3], last[3];
    for (int d = 0; d < 3; ++d) {
      begin[d] = p.at[d] * g.stride[d] - g.pad[d];
      g.clip(d, begin[d], first[d], last[d]);
    }
    const float* base = src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    const Index lane = src_lane();
    float best[lanes] = {};
    std::int32_t index[lanes] = {};
    bool started = false;
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const float* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          const auto number =
              static_cast<std::int32_t>(((d - begin[0]) * g.kernel[1] + h - begin[1]) * g.kernel[2] + w - begin[2]);
          const bool first_tap = !started;
          float v[lanes];
          load_lanes(x, lane, v);
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) {
            // The first element, a larger one, or the first NaN.
            const bool larger = !(v[l] <= best[l]) & (best[l] == best[l]), take = larger | first_tap;
            best[l] = take ? v[l] : best[l];
            index[l] = take ? number : index[l];
          }
          started = true;
        }
    const Index o = p.offset(g.dst);
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) dst[o + l * dst_lane()] = best[l];
    if (chosen) KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) chosen[o + l * dst_lane()] = static_cast<Chosen>(index[l]);
  }
};

struct AverageForward : PoolWindows {
  const float* src;
  float* dst;

  AverageForward(const PoolWindows& w, const float* x, float* y) : PoolWindows(w), src(x), dst(y) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, g.dst, item); }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun& p) const {
    Index first[3], last[3];
    for (int d = 0; d < 3; ++d) g.clip(d, p.at[d] * g.stride[d] - g.pad[d], first[d], last[d]);
    const float* base = src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    const Index lane = src_lane();
    float sum[lanes] = {};
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const float* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          float v[lanes];
          load_lanes(x, lane, v);
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) sum[l] += v[l];
        }
    const float factor = g.average_factor(first, last);
    float* y = dst + p.offset(g.dst);
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) y[l * dst_lane()] = sum[l] * factor;
  }
};

/// Backward where windows do not overlap (stride >= kernel): each window writes its cell, from its own beginning to
/// that of the next one, so that diff_src is written whole, once.
template <class Chosen>
struct BackwardCells : PoolWindows {
  const float* diff_dst;
  const Chosen* chosen;  ///< null for average pooling
  float* diff_src;

  BackwardCells(const PoolWindows& w, const float* y, const Chosen* c, float* x)
      : PoolWindows(w), diff_dst(y), chosen(c), diff_src(x) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, g.dst, item); }

  /// The last cell along W also takes what no window covers.
  KOKKOS_FUNCTION bool alike(const PoolRun& run) const {
    const bool last = run.at[2] + run.count == g.dst.extent[2];
    const bool uncovered = g.dst.extent[2] * g.stride[2] - g.pad[2] != g.src.extent[2];
    return PoolWindows::alike(run) && !(last && uncovered);
  }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun& p) const {
    Index begin[3], first[3], last[3], from[3], to[3];
    for (int d = 0; d < 3; ++d) {
      begin[d] = p.at[d] * g.stride[d] - g.pad[d];
      g.clip(d, begin[d], first[d], last[d]);
      from[d] = p.at[d] == 0 ? 0 : begin[d];
      to[d] = p.at[d] + 1 == g.dst.extent[d] ? g.src.extent[d] : begin[d] + g.stride[d];
    }
    const Index o = p.offset(g.dst), step = dst_lane(), lane = src_lane();
    float diff[lanes];
    std::int32_t number[lanes];
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) diff[l] = diff_dst[o + l * step];
    if (chosen) KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) number[l] = static_cast<std::int32_t>(chosen[o + l * step]);
    else KEELSON_KEEP_LOOP for (int l = 0; l < lanes; ++l) diff[l] *= g.average_factor(first, last);

    float* base = diff_src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    for (Index d = from[0]; d < to[0]; ++d)
      for (Index h = from[1]; h < to[1]; ++h)
        for (Index w = from[2]; w < to[2]; ++w) {
          float* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          const bool covered =
              d >= first[0] && d < last[0] && h >= first[1] && h < last[1] && w >= first[2] && w < last[2];
          const auto tap =
              static_cast<std::int32_t>(((d - begin[0]) * g.kernel[1] + h - begin[1]) * g.kernel[2] + w - begin[2]);
          float value[lanes];
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) value[l] = covered && (!chosen || number[l] == tap) ? diff[l] : 0.0f;
          if (lane == 1) KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) x[l] = value[l];
          else KEELSON_KEEP_LOOP for (int l = 0; l < lanes; ++l) x[l * lane] = value[l];
        }
  }
};

/// Backward where windows overlap: diff_src gathers from the windows that cover it, in order; no two work items write
/// the same element.
template <class Chosen>
struct BackwardGather {
  PoolGeometry g;
  bool over_channels;
  const float* diff_dst;
  const Chosen* chosen;  ///< null for average pooling
  float* diff_src;

  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, g.src, item); }
  KOKKOS_FUNCTION bool alike(const PoolRun&) const { return false; }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun& p) const {
    Index first[3], last[3];  // windows that cover the position
    for (int d = 0; d < 3; ++d) {
      const Index reach = p.at[d] + g.pad[d] - g.kernel[d] + 1;
      first[d] = reach <= 0 ? 0 : (reach + g.stride[d] - 1) / g.stride[d];
      const Index end = (p.at[d] + g.pad[d]) / g.stride[d] + 1;
      last[d] = end < g.dst.extent[d] ? end : g.dst.extent[d];
    }
    const Index base = p.n * g.dst.stride_n + p.channel * g.dst.stride_c;
    float sum[lanes] = {};
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const Index o = base + d * g.dst.stride[0] + h * g.dst.stride[1] + w * g.dst.stride[2];
          const Index tap[3] = {p.at[0] + g.pad[0] - d * g.stride[0], p.at[1] + g.pad[1] - h * g.stride[1],
                                p.at[2] + g.pad[2] - w * g.stride[2]};
          if (chosen) {
            const auto number = static_cast<Chosen>((tap[0] * g.kernel[1] + tap[1]) * g.kernel[2] + tap[2]);
            KEELSON_KEEP_LOOP
            for (int l = 0; l < lanes; ++l) sum[l] += chosen[o + l] == number ? diff_dst[o + l] : 0.0f;
          } else {
            Index from[3], to[3];
            for (int i = 0; i < 3; ++i) g.clip(i, p.at[i] - tap[i], from[i], to[i]);
            const float factor = g.average_factor(from, to);
            KEELSON_KEEP_LOOP
            for (int l = 0; l < lanes; ++l) sum[l] += factor * diff_dst[o + l];
          }
        }
    float* y = diff_src + p.offset(g.src);
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) y[l] = sum[l];
  }
};

}  // namespace keelson::kokkos
