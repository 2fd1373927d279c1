#pragma once

#include <algorithm>
#include <array>

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

  /// Where the operands of a step of the reduction are.
  struct Step {
    Index src, weights;
  };
  const Step* all_steps = nullptr;  ///< null: the kernel loops over taps and channels

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

  KOKKOS_FUNCTION Index steps() const { return taps[0] * taps[1] * taps[2] * length; }
  void list_steps(Step* to) const {
    for (Index d = 0; d < taps[0]; ++d)
      for (Index h = 0; h < taps[1]; ++h)
        for (Index w = 0; w < taps[2]; ++w)
          for (Index i = 0; i < length; ++i)
            *to++ = {d * tap_src[0] + h * tap_src[1] + w * tap_src[2] + i,
                     d * tap_weights[0] + h * tap_weights[1] + w * tap_weights[2] + i * weights.step_row};
  }
};

/// A run of tiles, one after the other.
template <int lanes>
struct ImplicitGemmTiles {
  ImplicitGemm g;
  Index tiles, tiles_per_item;

  static constexpr int rows = tile_rows;

  /// A destination position, and its offsets in src and dst.
  struct Position {
    Index n, at[3], src, dst;
  };

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index items = ceil_div(tiles, tiles_per_item), begin = item % items * tiles_per_item;
    item /= items;
    const Index panel = item % g.panels, group = item / g.panels;
    const Index end = begin + tiles_per_item < tiles ? begin + tiles_per_item : tiles;
    Position position = position_of(begin * rows);
    const auto initial = initial_sums(group * g.channels + panel * lanes, channels_of(panel));
    for (Index tile = begin; tile < end; ++tile) run(tile, panel, group, initial, position);
  }

  /// Computes a tile. `position`: of its first row, afterwards of the first row of the next tile.
  KOKKOS_FUNCTION void run(Index tile, Index panel, Index group, const Lanes<lanes>& initial,
                           Position& position) const {
    Index src_row[rows], dst_row[rows];
    const int valid = locate(tile * rows, position, src_row, dst_row);
    Lanes<lanes> acc[rows];
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) acc[r] = initial;

    const float* src = g.src.data + g.src.base + group * g.src.step_g;
    const float* weights = g.weights.data + group * g.weights.step_group + panel * g.weights.step_panel;
    if (g.all_steps)
      multiply_listed(acc, src, src_row, weights);
    else
      for (Index d = 0; d < g.taps[0]; ++d)
        for (Index h = 0; h < g.taps[1]; ++h)
          for (Index w = 0; w < g.taps[2]; ++w)
            multiply(acc, src + d * g.tap_src[0] + h * g.tap_src[1] + w * g.tap_src[2], src_row, 1,
                     weights + d * g.tap_weights[0] + h * g.tap_weights[1] + w * g.tap_weights[2], g.weights.step_row,
                     g.length);

    finish(acc, dst_row, valid, (group * g.channels + panel * lanes) * g.dst_c, channels_of(panel));
  }

  KOKKOS_FORCEINLINE_FUNCTION void multiply_listed(Lanes<lanes> (&acc)[rows], const float* src,
                                                   const Index (&src_row)[rows], const float* weights) const {
    const float* row[rows];
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) row[r] = src + src_row[r];
    const Index count = g.steps();
    for (Index k = 0; k < count; ++k) {
      const auto [from, with] = g.all_steps[k];
      Lanes<lanes> x;
      x.load(weights + with);
      KEELSON_UNROLL
      for (int r = 0; r < rows; ++r) acc[r].add_scaled(row[r][from], x);
    }
  }

  KOKKOS_FUNCTION int channels_of(Index panel) const {
    const Index left = g.channels - panel * lanes;
    return static_cast<int>(left < lanes ? left : lanes);
  }

  KOKKOS_FUNCTION Position position_of(Index number) const {
    Position p{};
    for (int d = 2; d >= 0; --d) {
      p.at[d] = number % g.extent[d];
      number /= g.extent[d];
    }
    p.n = number;
    set_offsets(p);
    return p;
  }
  KOKKOS_FUNCTION void set_offsets(Position& p) const {
    p.src = p.n * g.src.step_n + p.at[0] * g.src_step[0] + p.at[1] * g.src_step[1] + p.at[2] * g.src_step[2];
    p.dst = p.n * g.dst_n + p.at[0] * g.dst_step[0] + p.at[1] * g.dst_step[1] + p.at[2] * g.dst_step[2];
  }
  KOKKOS_FUNCTION void next_line(Position& p) const {
    p.at[2] = 0;
    if (++p.at[1] == g.extent[1]) {
      p.at[1] = 0;
      if (++p.at[0] == g.extent[0]) p.at[0] = 0, ++p.n;
    }
    set_offsets(p);
  }

  /// Offsets of `rows` consecutive positions from `p` on, which is moved behind them. Rows after the last position
  /// repeat this position and are not stored.
  KOKKOS_FUNCTION int locate(Index first, Position& p, Index (&src_row)[rows], Index (&dst_row)[rows]) const {
    const Index left = g.positions() - first;
    const int valid = static_cast<int>(left < rows ? left : rows);
    for (int r = 0; r < rows; ++r) {
      src_row[r] = p.src, dst_row[r] = p.dst;
      if (r + 1 >= left) continue;
      if (++p.at[2] == g.extent[2])
        next_line(p);
      else
        p.src += g.src_step[2], p.dst += g.dst_step[2];
    }
    return valid;
  }

  KOKKOS_FUNCTION Lanes<lanes> initial_sums(Index channel, int count) const {
    float initial[lanes] = {};
    if (g.bias)
      for (int l = 0; l < count; ++l) initial[l] = g.bias[channel + l];
    Lanes<lanes> sums;
    sums.load(initial);
    return sums;
  }

  KOKKOS_FUNCTION void finish(const Lanes<lanes> (&acc)[rows], const Index (&dst_row)[rows], int valid, Index offset,
                              int count) const {
    float x[rows * lanes];
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) acc[r].store(x + r * lanes);
    activate(g.activation, x);
    for (int r = 0; r < valid; ++r) {
      const float* const from = x + r * lanes;
      float* const to = g.dst + dst_row[r] + offset;
      if (count == lanes && g.dst_c == 1)
        for (int l = 0; l < lanes; ++l) to[l] = from[l];
      else
        for (int l = 0; l < count; ++l) to[l * g.dst_c] = from[l];
    }
  }
};

/// With few channels, the loop over those of a tap is so short that it costs more than its multiply-adds; steps are
/// listed then.
inline void launch_gather(const char* label, ImplicitGemm g) {
  constexpr Index few_channels = 16, most_steps = 512;
  std::array<ImplicitGemm::Step, most_steps> steps;
  if (runs_on_host && g.length < few_channels && g.steps() > g.length && g.steps() <= most_steps) {
    g.list_steps(steps.data());
    g.all_steps = steps.data();
  }
  const Index tiles = ceil_div(g.positions(), tile_rows), works = tiles * g.panels * g.groups;
  constexpr Index many_items = 256, longest_run = 16;
  const Index run = runs_on_host ? std::clamp<Index>(works / many_items, 1, longest_run) : 1;
  with_lanes(g.channels, [&](auto lanes) {
    launch(label, ceil_div(tiles, run) * g.panels * g.groups, ImplicitGemmTiles<lanes.value>{g, tiles, run});
  });
}

}  // namespace keelson::kokkos
