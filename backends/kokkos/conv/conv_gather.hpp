#pragma once

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/conv/conv_geometry.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"

/// Forward and backward data: every destination position sums over kernel taps and channels of the source. Implicit
/// GEMM: the rows of the tile are destination positions, the lanes are output channels, and the reduction is over taps
/// and input channels.
namespace keelson::kokkos {

struct ImplicitGemm {
  ChannelView src;
  Triple src_step;  ///< elements from one destination position to the next
  Panels weights;
  Triple taps, tap_src, tap_weights;
  Index length;  ///< contiguous input channels (or taps x channels) of one tap

  const float* bias;  ///< null: none
  EltwiseParams activation;

  float* dst;
  Index n, groups, channels, panels;  ///< channels of one group
  Triple extent;                      ///< destination positions
  Index dst_n, dst_c;
  Triple dst_step;

  KOKKOS_FUNCTION Index positions() const { return n * extent[0] * extent[1] * extent[2]; }

  /// Joins taps that are neighbours in both operands to the contiguous part: a longer inner loop for few input
  /// channels.
  void join_taps() {
    for (int d = 2; d >= 0; --d) {
      if (taps[d] != 1 && (tap_src[d] != length || tap_weights[d] != length * weights.step_row)) return;
      length *= taps[d];
      taps[d] = 1;
    }
  }
};

template <int lanes>
struct ImplicitGemmTile {
  ImplicitGemm g;
  Index tiles;

  static constexpr int rows = tile_rows;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index first = item % tiles * rows;
    item /= tiles;
    const Index panel = item % g.panels, group = item / g.panels;

    Index src_row[rows], dst_row[rows];
    const int valid = locate(first, src_row, dst_row);
    Lanes<lanes> acc[rows];
    start(acc, group * g.channels + panel * lanes, channels_of(panel));

    const float* src = g.src.data + g.src.base + group * g.src.step_g;
    const float* weights = g.weights.data + group * g.weights.step_group + panel * g.weights.step_panel;
    for (Index d = 0; d < g.taps[0]; ++d)
      for (Index h = 0; h < g.taps[1]; ++h)
        for (Index w = 0; w < g.taps[2]; ++w)
          multiply(acc, src + d * g.tap_src[0] + h * g.tap_src[1] + w * g.tap_src[2], src_row, 1,
                   weights + d * g.tap_weights[0] + h * g.tap_weights[1] + w * g.tap_weights[2], g.weights.step_row,
                   g.length);

    finish(acc, dst_row, valid, (group * g.channels + panel * lanes) * g.dst_c, channels_of(panel));
  }

  KOKKOS_FUNCTION int channels_of(Index panel) const {
    const Index left = g.channels - panel * lanes;
    return static_cast<int>(left < lanes ? left : lanes);
  }

  /// Offsets of `rows` consecutive positions. Rows after the last position repeat this position and are not stored.
  KOKKOS_FUNCTION int locate(Index first, Index (&src_row)[rows], Index (&dst_row)[rows]) const {
    Index at[3], rest = first;
    for (int d = 2; d >= 0; --d) {
      at[d] = rest % g.extent[d];
      rest /= g.extent[d];
    }
    Index n = rest;
    const Index left = g.positions() - first;
    const int valid = static_cast<int>(left < rows ? left : rows);
    for (int r = 0; r < rows; ++r) {
      src_row[r] = n * g.src.step_n + at[0] * g.src_step[0] + at[1] * g.src_step[1] + at[2] * g.src_step[2];
      dst_row[r] = n * g.dst_n + at[0] * g.dst_step[0] + at[1] * g.dst_step[1] + at[2] * g.dst_step[2];
      if (r + 1 >= valid) continue;
      if (++at[2] < g.extent[2]) continue;
      at[2] = 0;
      if (++at[1] < g.extent[1]) continue;
      at[1] = 0;
      if (++at[0] < g.extent[0]) continue;
      at[0] = 0;
      ++n;
    }
    return valid;
  }

  KOKKOS_FUNCTION void start(Lanes<lanes> (&acc)[rows], Index channel, int count) const {
    float initial[lanes] = {};
    if (g.bias)
      for (int l = 0; l < count; ++l) initial[l] = g.bias[channel + l];
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) acc[r].load(initial);
  }

  KOKKOS_FUNCTION void finish(const Lanes<lanes> (&acc)[rows], const Index (&dst_row)[rows], int valid, Index offset,
                              int count) const {
    for (int r = 0; r < valid; ++r) {
      float x[lanes];
      acc[r].store(x);
      activate(g.activation, x);
      float* to = g.dst + dst_row[r] + offset;
      if (count == lanes && g.dst_c == 1)
        for (int l = 0; l < lanes; ++l) to[l] = x[l];
      else
        for (int l = 0; l < count; ++l) to[l * g.dst_c] = x[l];
    }
  }
};

inline void launch_gather(const char* label, const ImplicitGemm& g) {
  const Index tiles = ceil_div(g.positions(), tile_rows);
  with_lanes(g.channels,
             [&](auto lanes) { launch(label, tiles * g.panels * g.groups, ImplicitGemmTile<lanes.value>{g, tiles}); });
}

}  // namespace keelson::kokkos
