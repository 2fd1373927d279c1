#pragma once

#include "backends/kokkos/common.hpp"

/// Pooling on (N, C, D, H, W) with any strides. A work item takes one position and up to `lanes` neighbouring channels:
/// vectors where channels are contiguous, single elements elsewhere.
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

/// One position of a volume, channels apart.
struct PoolPosition {
  Index channel, n, at[3];

  KOKKOS_FUNCTION static PoolPosition decode(Index item, const Volume& v, Index channels_per_item) {
    PoolPosition p;
    const Index blocks = ceil_div(v.c, channels_per_item);
    p.channel = item % blocks * channels_per_item;
    item /= blocks;
    for (int d = 2; d >= 0; --d) {
      p.at[d] = item % v.extent[d];
      item /= v.extent[d];
    }
    p.n = item;
    return p;
  }
  KOKKOS_FUNCTION Index offset(const Volume& v) const {
    return n * v.stride_n + channel * v.stride_c + at[0] * v.stride[0] + at[1] * v.stride[1] + at[2] * v.stride[2];
  }
};

inline constexpr int pool_lanes = runs_on_host ? 32 : 1;

/// dst = largest element, chosen = its number within the window (d, h, w; w fastest). `Chosen` is u8 or s32; null where
/// nobody asks.
template <class Chosen>
struct MaxForward {
  PoolGeometry g;
  Index channels_per_item;
  const float* src;
  float* dst;
  Chosen* chosen;

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolPosition& p) const {
    Index begin[3], first[3], last[3];
    for (int d = 0; d < 3; ++d) {
      begin[d] = p.at[d] * g.stride[d] - g.pad[d];
      g.clip(d, begin[d], first[d], last[d]);
    }
    const float* base = src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    float best[lanes] = {};
    std::int32_t index[lanes] = {};
    bool started = false;
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const float* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          const auto number =
              static_cast<std::int32_t>(((d - begin[0]) * g.kernel[1] + h - begin[1]) * g.kernel[2] + w - begin[2]);
          if (!started) {
            for (int l = 0; l < lanes; ++l) best[l] = x[l], index[l] = number;
            started = true;
            continue;
          }
          for (int l = 0; l < lanes; ++l) {
            // Larger, or the first NaN.
            const bool take = !(x[l] <= best[l]) & (best[l] == best[l]);
            best[l] = take ? x[l] : best[l];
            index[l] = take ? number : index[l];
          }
        }
    const Index o = p.offset(g.dst);
    for (int l = 0; l < lanes; ++l) dst[o + l] = best[l];
    if (chosen)
      for (int l = 0; l < lanes; ++l) chosen[o + l] = static_cast<Chosen>(index[l]);
  }

  KOKKOS_FUNCTION void operator()(Index item) const;
};

struct AverageForward {
  PoolGeometry g;
  Index channels_per_item;
  const float* src;
  float* dst;

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolPosition& p) const {
    Index first[3], last[3];
    for (int d = 0; d < 3; ++d) g.clip(d, p.at[d] * g.stride[d] - g.pad[d], first[d], last[d]);
    const float* base = src + p.n * g.src.stride_n + p.channel * g.src.stride_c;
    float sum[lanes] = {};
    for (Index d = first[0]; d < last[0]; ++d)
      for (Index h = first[1]; h < last[1]; ++h)
        for (Index w = first[2]; w < last[2]; ++w) {
          const float* x = base + d * g.src.stride[0] + h * g.src.stride[1] + w * g.src.stride[2];
          for (int l = 0; l < lanes; ++l) sum[l] += x[l];
        }
    const float factor = g.average_factor(first, last);
    float* y = dst + p.offset(g.dst);
    for (int l = 0; l < lanes; ++l) y[l] = sum[l] * factor;
  }

  KOKKOS_FUNCTION void operator()(Index item) const;
};

/// diff_src gathers from the windows that cover it, in order: no two work items write the same element.
template <class Chosen>
struct PoolBackward {
  PoolGeometry g;
  Index channels_per_item;
  const float* diff_dst;
  const Chosen* chosen;  ///< null for average pooling
  float* diff_src;

  template <int lanes>
  KOKKOS_FUNCTION void window(const PoolPosition& p) const {
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
            for (int l = 0; l < lanes; ++l) sum[l] += chosen[o + l] == number ? diff_dst[o + l] : 0.0f;
          } else {
            Index from[3], to[3];
            for (int i = 0; i < 3; ++i) g.clip(i, p.at[i] - tap[i], from[i], to[i]);
            const float factor = g.average_factor(from, to);
            for (int l = 0; l < lanes; ++l) sum[l] += factor * diff_dst[o + l];
          }
        }
    float* y = diff_src + p.offset(g.src);
    for (int l = 0; l < lanes; ++l) y[l] = sum[l];
  }

  KOKKOS_FUNCTION void operator()(Index item) const;
};

/// A whole vector of channels where they are there and contiguous, else one at a time.
template <class Kernel>
KOKKOS_FUNCTION void pool_item(const Kernel& k, PoolPosition p, Index channels) {
  Index left = p.channel + k.channels_per_item < channels ? k.channels_per_item : channels - p.channel;
  for (; left >= pool_lanes && k.channels_per_item >= pool_lanes; left -= pool_lanes, p.channel += pool_lanes)
    k.template window<pool_lanes>(p);
  for (; left > 0; --left, ++p.channel) k.template window<1>(p);
}

template <class Chosen>
KOKKOS_FUNCTION void MaxForward<Chosen>::operator()(Index item) const {
  pool_item(*this, PoolPosition::decode(item, g.dst, channels_per_item), g.dst.c);
}
KOKKOS_INLINE_FUNCTION void AverageForward::operator()(Index item) const {
  pool_item(*this, PoolPosition::decode(item, g.dst, channels_per_item), g.dst.c);
}
template <class Chosen>
KOKKOS_FUNCTION void PoolBackward<Chosen>::operator()(Index item) const {
  pool_item(*this, PoolPosition::decode(item, g.src, channels_per_item), g.src.c);
}

}  // namespace keelson::kokkos
