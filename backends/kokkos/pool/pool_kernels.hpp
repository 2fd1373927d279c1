#pragma once

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/values.hpp"

/// Pooling on (N, C, D, H, W) with any strides. A work item processes runs of neighbouring windows: over the channels
/// of one position if channels are contiguous, else over positions along W. `I` is the type of indices: 32 bits on a
/// GPU if this is enough.
namespace keelson::kokkos {

/// Windows of any size, stride and padding.
template <class I>
struct AnyWindow {
  static constexpr bool fixed = false;
  Kokkos::Array<I, 3> extents, strides, pads;

  KOKKOS_FUNCTION I kernel(int d) const { return extents[d]; }
  KOKKOS_FUNCTION I stride(int d) const { return strides[d]; }
  KOKKOS_FUNCTION I pad(int d) const { return pads[d]; }
};

/// Windows without gap or overlap, all inside the input, with a size that is known at compile time.
template <class I, int depth, int height, int width>
struct FixedWindow {
  static constexpr bool fixed = true;
  KOKKOS_FUNCTION static constexpr I kernel(int d) { return d == 0 ? depth : d == 1 ? height : width; }
  KOKKOS_FUNCTION static constexpr I stride(int d) { return kernel(d); }
  KOKKOS_FUNCTION static constexpr I pad(int) { return 0; }
};

template <class I>
struct PoolVolume {
  I n, c, extent[3];
  I stride_n, stride_c, stride[3];

  explicit PoolVolume(const Volume& v)
      : n(static_cast<I>(v.n)),
        c(static_cast<I>(v.c)),
        extent{static_cast<I>(v.extent[0]), static_cast<I>(v.extent[1]), static_cast<I>(v.extent[2])},
        stride_n(static_cast<I>(v.stride_n)),
        stride_c(static_cast<I>(v.stride_c)),
        stride{static_cast<I>(v.stride[0]), static_cast<I>(v.stride[1]), static_cast<I>(v.stride[2])} {}
};

/// A part of a window or a cell; coordinates count from the beginning of the window.
template <class I>
struct PoolBox {
  I from[3], to[3];
};

template <class I, class W>
struct PoolGeometry {
  static constexpr bool fixed = W::fixed;
  PoolVolume<I> src, dst;
  W window;
  bool count_padding;

  KOKKOS_FORCEINLINE_FUNCTION I begin(int d, I at) const { return at * window.stride(d) - window.pad(d); }
  /// The part of the window with this beginning that is inside the input.
  KOKKOS_FORCEINLINE_FUNCTION PoolBox<I> inside(const I (&begin)[3]) const {
    PoolBox<I> b{};
    for (int d = 0; d < 3; ++d) {
      b.from[d] = W::fixed || begin[d] >= 0 ? 0 : -begin[d];
      b.to[d] = W::fixed || begin[d] + window.kernel(d) <= src.extent[d] ? window.kernel(d) : src.extent[d] - begin[d];
    }
    return b;
  }
  /// The index of an element in its window, w fastest.
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t tap(I d, I h, I w) const {
    return static_cast<std::int32_t>((d * window.kernel(1) + h) * window.kernel(2) + w);
  }
  KOKKOS_FORCEINLINE_FUNCTION float average_factor(const PoolBox<I>& covered) const {
    I count = 1;
    for (int d = 0; d < 3; ++d) count *= count_padding ? window.kernel(d) : covered.to[d] - covered.from[d];
    return 1.0f / static_cast<float>(count);
  }
};

/// The longest run: on a GPU as many channels as a thread moves at once.
template <class T>
inline constexpr int pool_lanes = runs_on_host ? 16 : pack_width<T>;

/// `count` neighbouring elements of a volume: channel + l or at[2] + l.
template <class I>
struct PoolRun {
  I n, channel, at[3], count;

  KOKKOS_FUNCTION I offset(const PoolVolume<I>& v) const {
    return n * v.stride_n + channel * v.stride_c + at[0] * v.stride[0] + at[1] * v.stride[1] + at[2] * v.stride[2];
  }
};

/// Divides a volume into work items: all runs of one (n, d, h) on a CPU, where decoding an item takes as long as a run;
/// single runs on a GPU. `lanes` is the length of runs: pool_lanes, or 1 on a GPU if runs would not be aligned.
struct PoolItems {
  Index lanes, length, others,
      runs;  ///< of one (n, d, h): extent along the runs, across them, and runs along the former
  Index count;
  Divider by_runs, by_others, by_height, by_depth;

  PoolItems(const Volume& v, bool over_channels, Index lanes)
      : lanes(lanes),
        length(over_channels ? v.c : v.extent[2]),
        others(over_channels ? v.extent[2] : v.c),
        runs(ceil_div(length, lanes)),
        count(v.n * v.extent[0] * v.extent[1] * (runs_on_host ? 1 : others * runs)),
        by_runs(runs, count),
        by_others(others, count),
        by_height(v.extent[1], count),
        by_depth(v.extent[0], count) {}
};

/// The common part of all kernels. `over_channels`: runs are along the channels.
template <class I_, class W>
struct PoolRuns {
  using I = I_;
  static constexpr bool fixed = W::fixed;
  PoolGeometry<I, W> g;
  bool over_channels;
  PoolItems items;
};

/// Calls k.window<pool_lanes>(run) for the whole run if its windows are alike, else for one element after the other.
template <class Kernel>
KOKKOS_FUNCTION void pool_run(const Kernel& k, PoolRun<typename Kernel::I> run) {
  constexpr int most = pool_lanes<typename Kernel::Value>;
  const bool alike = k.over_channels || k.alike(run);
  if (run.count == most && alike) return k.template window<most>(run);
  for (; run.count > 0; --run.count, ++(k.over_channels ? run.channel : run.at[2])) k.template window<1>(run);
}

template <class Kernel>
KOKKOS_FUNCTION void pool_item(const Kernel& k, Index item) {
  using I = typename Kernel::I;
  const PoolItems& items = k.items;
  Index first_run = 0, end_run = items.runs, first_other = 0, end_other = items.others;
  if constexpr (!runs_on_host) {
    first_run = items.by_runs.split(item), end_run = first_run + 1;
    first_other = items.by_others.split(item), end_other = first_other + 1;
  }
  PoolRun<I> run{};
  run.at[1] = static_cast<I>(items.by_height.split(item));
  run.at[0] = static_cast<I>(items.by_depth.split(item));
  run.n = static_cast<I>(item);
  const auto lanes = static_cast<I>(items.lanes), length = static_cast<I>(items.length);
  for (auto other = static_cast<I>(first_other); other < static_cast<I>(end_other); ++other)
    for (auto r = static_cast<I>(first_run); r < static_cast<I>(end_run); ++r) {
      const I first = r * lanes;
      run.channel = k.over_channels ? first : other;
      run.at[2] = k.over_channels ? other : first;
      run.count = first + lanes < length ? lanes : length - first;
      pool_run(k, run);
    }
}

/// A run whose lanes are `lane` elements apart.
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

/// The type of argmax indices in average pooling, which has none.
struct NoChoice {};

/// The common part of forward and window-wise backward: a run of windows, each with its part of src.
template <class Runs>
struct PoolWindows : Runs {
  using I = typename Runs::I;
  /// Elements between the lanes of a run, in src and in dst.
  KOKKOS_FUNCTION I src_lane() const {
    return this->over_channels ? this->g.src.stride_c : this->g.window.stride(2) * this->g.src.stride[2];
  }
  KOKKOS_FUNCTION I dst_lane() const { return this->over_channels ? this->g.dst.stride_c : this->g.dst.stride[2]; }
  /// Whether no window of a run along W is cut by the border.
  KOKKOS_FUNCTION bool alike(const PoolRun<I>& run) const {
    const auto& g = this->g;
    const I first = g.begin(2, run.at[2]);
    return first >= 0 && first + (run.count - 1) * g.window.stride(2) + g.window.kernel(2) <= g.src.extent[2];
  }
  /// The beginning of the window, and the offset of this element in src. The element may be padding.
  KOKKOS_FORCEINLINE_FUNCTION I corner(const PoolRun<I>& p, I (&begin)[3]) const {
    const auto& g = this->g;
    I at = p.n * g.src.stride_n + p.channel * g.src.stride_c;
    for (int d = 0; d < 3; ++d) {
      begin[d] = g.begin(d, p.at[d]);
      at += begin[d] * g.src.stride[d];
    }
    return at;
  }
};

/// dst = largest element, chosen = its index in the window (d, h, w; w fastest). `Chosen` is u8 or s32; null: not
/// needed.
template <class Runs, class T, class Chosen>
struct MaxForward : PoolWindows<Runs> {
  using I = typename Runs::I;
  using Value = T;
  const T* src;
  T* dst;
  Chosen* chosen;

  MaxForward(const Runs& r, const T* x, T* y, Chosen* c) : PoolWindows<Runs>{r}, src(x), dst(y), chosen(c) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, item); }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun<I>& p) const {
    const auto& g = this->g;
    I begin[3];
    const I corner = this->corner(p, begin), lane = this->src_lane();
    const PoolBox<I> taps = g.inside(begin);
    float best[lanes] = {};
    std::int32_t index[lanes] = {};
    bool started = false;
    for (I d = taps.from[0]; d < taps.to[0]; ++d)
      for (I h = taps.from[1]; h < taps.to[1]; ++h)
        for (I w = taps.from[2]; w < taps.to[2]; ++w) {
          const T* x = src + (corner + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2]);
          const std::int32_t number = g.tap(d, h, w);
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
    const I o = p.offset(g.dst);
    store_lanes(dst + o, this->dst_lane(), best);
    if (chosen) store_numbers(chosen + o, this->dst_lane(), index);
  }
};

template <class Runs, class T>
struct AverageForward : PoolWindows<Runs> {
  using I = typename Runs::I;
  using Value = T;
  const T* src;
  T* dst;

  AverageForward(const Runs& r, const T* x, T* y) : PoolWindows<Runs>{r}, src(x), dst(y) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, item); }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun<I>& p) const {
    const auto& g = this->g;
    I begin[3];
    const I corner = this->corner(p, begin), lane = this->src_lane();
    const PoolBox<I> taps = g.inside(begin);
    float sum[lanes] = {};
    for (I d = taps.from[0]; d < taps.to[0]; ++d)
      for (I h = taps.from[1]; h < taps.to[1]; ++h)
        for (I w = taps.from[2]; w < taps.to[2]; ++w) {
          const T* x = src + (corner + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2]);
          float v[lanes];
          load_lanes(x, lane, v);
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) sum[l] += v[l];
        }
    const float factor = g.average_factor(taps);
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) sum[l] *= factor;
    store_lanes(dst + p.offset(g.dst), this->dst_lane(), sum);
  }
};

/// Backward for windows that do not overlap (stride >= kernel). Each window writes its cell, from its own beginning to
/// the beginning of the next window, so that all of diff_src is written once.
template <class Runs, class T, class Chosen>
struct BackwardCells : PoolWindows<Runs> {
  using I = typename Runs::I;
  using Value = T;
  static constexpr bool chooses = !std::is_same_v<Chosen, NoChoice>;
  const T* diff_dst;
  const Chosen* chosen;
  T* diff_src;

  BackwardCells(const Runs& r, const T* y, const Chosen* c, T* x)
      : PoolWindows<Runs>{r}, diff_dst(y), chosen(c), diff_src(x) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, item); }

  /// The last cell along W also includes elements that no window covers.
  KOKKOS_FUNCTION bool alike(const PoolRun<I>& run) const {
    const auto& g = this->g;
    const bool last = run.at[2] + run.count == g.dst.extent[2];
    const bool uncovered = g.begin(2, g.dst.extent[2]) != g.src.extent[2];
    return PoolWindows<Runs>::alike(run) && !(last && uncovered);
  }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun<I>& p) const {
    const auto& g = this->g;
    I begin[3];
    const I corner = this->corner(p, begin), o = p.offset(g.dst), step = this->dst_lane();
    const PoolBox<I> covered = g.inside(begin);
    float diff[lanes];
    [[maybe_unused]] std::int32_t number[lanes];
    load_lanes(diff_dst + o, step, diff);
    if constexpr (chooses) {
      load_numbers(chosen + o, step, number);
    } else {
      const float factor = g.average_factor(covered);
      KEELSON_KEEP_LOOP
      for (int l = 0; l < lanes; ++l) diff[l] *= factor, number[l] = 0;
    }

    PoolBox<I> cell{};
    bool is_window = Runs::fixed;
    for (int d = 0; d < 3; ++d) {
      cell.from[d] = p.at[d] == 0 ? -begin[d] : 0;
      cell.to[d] = p.at[d] + 1 == g.dst.extent[d] ? g.src.extent[d] - begin[d] : g.window.stride(d);
      is_window = is_window && cell.to[d] == g.window.kernel(d);
    }
    T* const to = diff_src + corner;
    const I lane = this->src_lane();
    if (is_window)
      write(to, lane, covered, covered, diff, number);
    else
      write(to, lane, cell, covered, diff, number);
  }

 private:
  template <int lanes>
  KOKKOS_FORCEINLINE_FUNCTION void write(T* to, I lane, const PoolBox<I> cell, const PoolBox<I> covered,
                                         const float (&diff)[lanes], const std::int32_t (&number)[lanes]) const {
    const auto& g = this->g;
    for (I d = cell.from[0]; d < cell.to[0]; ++d)
      for (I h = cell.from[1]; h < cell.to[1]; ++h)
        for (I w = cell.from[2]; w < cell.to[2]; ++w) {
          const bool inside = d >= covered.from[0] && d < covered.to[0] && h >= covered.from[1] && h < covered.to[1] &&
                              w >= covered.from[2] && w < covered.to[2];
          const std::int32_t tap = g.tap(d, h, w);
          float value[lanes];
          KEELSON_KEEP_LOOP
          for (int l = 0; l < lanes; ++l) value[l] = inside && (!chooses || number[l] == tap) ? diff[l] : 0.0f;
          store_lanes(to + (d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2]), lane, value);
        }
  }
};

/// Backward for windows that overlap: diff_src sums over the windows that cover an element, in order. No two work items
/// write the same element.
template <class Runs, class T, class Chosen>
struct BackwardGather : Runs {
  using I = typename Runs::I;
  using Value = T;
  const T* diff_dst;
  const Chosen* chosen;  ///< null for average pooling
  T* diff_src;

  BackwardGather(const Runs& r, const T* y, const Chosen* c, T* x) : Runs(r), diff_dst(y), chosen(c), diff_src(x) {}
  KOKKOS_FUNCTION void operator()(Index item) const { pool_item(*this, item); }
  KOKKOS_FUNCTION bool alike(const PoolRun<I>&) const { return false; }

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolRun<I>& p) const {
    const auto& g = this->g;
    I first[3], last[3];  // windows that cover the position
    for (int d = 0; d < 3; ++d) {
      const I reach = p.at[d] + g.window.pad(d) - g.window.kernel(d) + 1;
      first[d] = reach <= 0 ? 0 : (reach + g.window.stride(d) - 1) / g.window.stride(d);
      const I end = (p.at[d] + g.window.pad(d)) / g.window.stride(d) + 1;
      last[d] = end < g.dst.extent[d] ? end : g.dst.extent[d];
    }
    const I base = p.n * g.dst.stride_n + p.channel * g.dst.stride_c;
    float sum[lanes] = {};
    for (I d = first[0]; d < last[0]; ++d)
      for (I h = first[1]; h < last[1]; ++h)
        for (I w = first[2]; w < last[2]; ++w) {
          const I o = base + d * g.dst.stride[0] + h * g.dst.stride[1] + w * g.dst.stride[2];
          const I begin[3] = {g.begin(0, d), g.begin(1, h), g.begin(2, w)};
          float diff[lanes];
          load(diff_dst + o, diff);
          if (chosen) {
            const std::int32_t wanted = g.tap(p.at[0] - begin[0], p.at[1] - begin[1], p.at[2] - begin[2]);
            std::int32_t number[lanes];
            load_numbers(chosen + o, 1, number);
            KEELSON_KEEP_LOOP
            for (int l = 0; l < lanes; ++l) sum[l] += number[l] == wanted ? diff[l] : 0.0f;
          } else {
            const float factor = g.average_factor(g.inside(begin));
            KEELSON_KEEP_LOOP
            for (int l = 0; l < lanes; ++l) sum[l] += factor * diff[l];
          }
        }
    store(diff_src + p.offset(g.src), sum);
  }
};

}  // namespace keelson::kokkos
