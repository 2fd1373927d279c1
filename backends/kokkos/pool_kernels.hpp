#pragma once

#include "backends/kokkos/values.hpp"

/// Pooling on (N, C, D, H, W) with any strides. A work item takes runs of neighbouring windows: over the channels of
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

/// The longest run: on a GPU as many channels as a thread moves at once.
template <class T>
inline constexpr int pool_lanes = runs_on_host ? 16 : pack_width<T>;

/// `count` neighbouring elements of a volume: channel + l or at[2] + l.
struct PoolRun {
  Index n, channel, at[3], count;

  KOKKOS_FUNCTION Index offset(const Volume& v) const {
    return n * v.stride_n + channel * v.stride_c + at[0] * v.stride[0] + at[1] * v.stride[1] + at[2] * v.stride[2];
  }
};

/// What all kernels know: `over_channels` says along what runs lie, `lanes` how long they are: pool_lanes, or 1 on a
/// GPU whose threads would meet unaligned ones.
struct PoolRuns {
  PoolGeometry g;
  bool over_channels;
  Index lanes;
};

/// Calls k.window<pool_lanes>(run) for the whole run where its windows are alike, else for one element after the other.
template <class Kernel>
KOKKOS_FUNCTION void pool_run(const Kernel& k, PoolRun run) {
  constexpr int most = pool_lanes<typename Kernel::Value>;
  const bool alike = k.over_channels || k.alike(run);
  if (run.count == most && alike) return k.template window<most>(run);
  for (; run.count > 0; --run.count, ++(k.over_channels ? run.channel : run.at[2])) k.template window<1>(run);
}

/// How a volume is cut into work items: all runs of one (n, d, h) on a CPU, where decoding an item costs as much as a
/// run; single runs on a GPU.
struct PoolItems {
  Index length, others, runs;  ///< of one (n, d, h): extent along the runs, across them, and runs along the former

  KOKKOS_FUNCTION PoolItems(const Volume& v, const PoolRuns& r)
      : length(r.over_channels ? v.c : v.extent[2]),
        others(r.over_channels ? v.extent[2] : v.c),
        runs(ceil_div(length, r.lanes)) {}
  Index count(const Volume& v) const { return v.n * v.extent[0] * v.extent[1] * (runs_on_host ? 1 : others * runs); }
};

template <class Kernel>
KOKKOS_FUNCTION void pool_item(const Kernel& k, const Volume& v, Index item) {
  const PoolItems items(v, k);
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
      const Index first = r * k.lanes;
      run.channel = k.over_channels ? first : other;
      run.at[2] = k.over_channels ? other : first;
      run.count = first + k.lanes < items.length ? k.lanes : items.length - first;
      pool_run(k, run);
    }
}

/// A run whose lanes lie `lane` apart.
template <int lanes, class T>
KOKKOS_INLINE_FUNCTION void load_lanes(const T* x, Index lane, float (&v)[lanes]) {
  if (lane == 1) return load(x, v);
  KEELSON_KEEP_LOOP
  for (int l = 0; l < lanes; ++l) v[l] = value_of(x[l * lane]);
}
template <int lanes, class T>
KOKKOS_INLINE_FUNCTION void store_lanes(T* y, Index lane, const float (&v)[lanes]) {
  if (lane == 1) return store(y, v);
  KEELSON_KEEP_LOOP
  for (int l = 0; l < lanes; ++l) y[l * lane] = stored<T>(v[l]);
}

/// The argmax indices of the windows, u8 or s32.
template <int lanes, class Chosen>
KOKKOS_INLINE_FUNCTION void load_numbers(const Chosen* x, Index lane, std::int32_t (&v)[lanes]) {
  if constexpr (!runs_on_host && lanes > 1) {
    const auto pack = *reinterpret_cast<const Pack<Chosen, lanes>*>(x);
    for (int l = 0; l < lanes; ++l) v[l] = static_cast<std::int32_t>(pack.x[l]);
  } else {
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) v[l] = static_cast<std::int32_t>(x[l * lane]);
  }
}
template <int lanes, class Chosen>
KOKKOS_INLINE_FUNCTION void store_numbers(Chosen* y, Index lane, const std::int32_t (&v)[lanes]) {
  if constexpr (!runs_on_host && lanes > 1) {
    Pack<Chosen, lanes> pack;
    for (int l = 0; l < lanes; ++l) pack.x[l] = static_cast<Chosen>(v[l]);
    *reinterpret_cast<Pack<Chosen, lanes>*>(y) = pack;
  } else {
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) y[l * lane] = static_cast<Chosen>(v[l]);
  }
}

/// What forward and window-wise backward share: a run of windows, each stepping through its own part of src.
struct PoolWindows : PoolRuns {
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
template <class T, class Chosen>
struct MaxForward : PoolWindows {
  using Value = T;
  const T* src;
  T* dst;
  Chosen* chosen;

  MaxForward(const PoolRuns& r, const T* x, T* y, Chosen* c) : PoolWindows{r}, src(x), dst(y), chosen(c) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, g.dst, item); }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun& p) const {
    Index begin[3], first[3], last[3];
    for (int d = 0; d < 3; ++d) {
      begin[d] = p.at[d] * g.stride[d] - g.pad[d];
      g.clip(d, begin[d], first[d], last[d]);
    }
    const T* base = src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    const Index lane = src_lane();
    float best[lanes] = {};
    std::int32_t index[lanes] = {};
    bool started = false;
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const T* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
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
    store_lanes(dst + o, dst_lane(), best);
    if (chosen) store_numbers(chosen + o, dst_lane(), index);
  }
};

template <class T>
struct AverageForward : PoolWindows {
  using Value = T;
  const T* src;
  T* dst;

  AverageForward(const PoolRuns& r, const T* x, T* y) : PoolWindows{r}, src(x), dst(y) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, g.dst, item); }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun& p) const {
    Index first[3], last[3];
    for (int d = 0; d < 3; ++d) g.clip(d, p.at[d] * g.stride[d] - g.pad[d], first[d], last[d]);
    const T* base = src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    const Index lane = src_lane();
    float sum[lanes] = {};
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const T* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          float v[lanes];
          load_lanes(x, lane, v);
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) sum[l] += v[l];
        }
    const float factor = g.average_factor(first, last);
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) sum[l] *= factor;
    store_lanes(dst + p.offset(g.dst), dst_lane(), sum);
  }
};

/// Backward where windows do not overlap (stride >= kernel): each window writes its cell, from its own beginning to
/// that of the next one, so that diff_src is written whole, once.
template <class T, class Chosen>
struct BackwardCells : PoolWindows {
  using Value = T;
  const T* diff_dst;
  const Chosen* chosen;  ///< null for average pooling
  T* diff_src;

  BackwardCells(const PoolRuns& r, const T* y, const Chosen* c, T* x)
      : PoolWindows{r}, diff_dst(y), chosen(c), diff_src(x) {}
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
    load_lanes(diff_dst + o, step, diff);
    if (chosen)
      load_numbers(chosen + o, step, number);
    else
      KEELSON_KEEP_LOOP for (int l = 0; l < lanes; ++l) diff[l] *= g.average_factor(first, last);

    T* base = diff_src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    for (Index d = from[0]; d < to[0]; ++d)
      for (Index h = from[1]; h < to[1]; ++h)
        for (Index w = from[2]; w < to[2]; ++w) {
          T* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          const bool covered =
              d >= first[0] && d < last[0] && h >= first[1] && h < last[1] && w >= first[2] && w < last[2];
          const auto tap =
              static_cast<std::int32_t>(((d - begin[0]) * g.kernel[1] + h - begin[1]) * g.kernel[2] + w - begin[2]);
          float value[lanes];
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) value[l] = covered && (!chosen || number[l] == tap) ? diff[l] : 0.0f;
          store_lanes(x, lane, value);
        }
  }
};

/// Backward where windows overlap: diff_src gathers from the windows that cover it, in order; no two work items write
/// the same element.
template <class T, class Chosen>
struct BackwardGather : PoolRuns {
  using Value = T;
  const T* diff_dst;
  const Chosen* chosen;  ///< null for average pooling
  T* diff_src;

  BackwardGather(const PoolRuns& r, const T* y, const Chosen* c, T* x)
      : PoolRuns(r), diff_dst(y), chosen(c), diff_src(x) {}
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
          float diff[lanes];
          load(diff_dst + o, diff);
          if (chosen) {
            const auto wanted = static_cast<std::int32_t>((tap[0] * g.kernel[1] + tap[1]) * g.kernel[2] + tap[2]);
            std::int32_t number[lanes];
            load_numbers(chosen + o, 1, number);
            KEELSON_KEEP_LOOP
            for (int l = 0; l < lanes; ++l) sum[l] += number[l] == wanted ? diff[l] : 0.0f;
          } else {
            Index from[3], to[3];
            for (int i = 0; i < 3; ++i) g.clip(i, p.at[i] - tap[i], from[i], to[i]);
            const float factor = g.average_factor(from, to);
            KEELSON_KEEP_LOOP
            for (int l = 0; l < lanes; ++l) sum[l] += factor * diff[l];
          }
        }
    store(diff_src + p.offset(g.src), sum);
  }
};

}  // namespace keelson::kokkos
