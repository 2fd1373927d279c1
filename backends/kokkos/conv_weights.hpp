#pragma once

#include "backends/kokkos/conv_geometry.hpp"
#include "backends/kokkos/tile.hpp"

/// Backward weights: diff_weights[tap][i][o] = sum over positions of src[position + tap][i] * diff_dst[position][o].
/// The rows of the tile are input channels (and neighbouring taps), its lanes output channels. The positions are cut
/// into slots of fixed size, each summed into its own copy of the weights, then the copies are added in order: the
/// result does not depend on the number of threads.
namespace keelson::kokkos {

struct WeightsGradient {
  ChannelView src, diff;
  Triple src_step, tap_src, taps;
  Index rows, panels, groups;
  Index n;
  Triple extent;                ///< of dst
  Index slots, lines_per_slot;  ///< a line: the positions along W
  float* partial;               ///< (slot, group, panel, tap, row, lane)

  Index lines() const { return n * extent[0] * extent[1]; }
  Index tap_count() const { return taps[0] * taps[1] * taps[2]; }

  void join_taps() {
    for (int d = 2; d >= 0; --d) {
      if (taps[d] != 1 && tap_src[d] != rows) return;
      rows *= taps[d];
      taps[d] = 1;
    }
  }
};

template <int lanes>
struct WeightsTile {
  WeightsGradient g;
  Index row_tiles;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index row_begin = item % row_tiles * tile_rows;
    item /= row_tiles;
    const Index taps = g.taps[0] * g.taps[1] * g.taps[2], tap = item % taps;
    item /= taps;
    const Index panel = item % g.panels;
    item /= g.panels;
    const Index group = item % g.groups, slot = item / g.groups;

    const Index valid = row_begin + tile_rows < g.rows ? tile_rows : g.rows - row_begin;
    Index row[tile_rows];
    for (int r = 0; r < tile_rows; ++r) row[r] = row_begin + (r < valid ? r : valid - 1);
    Lanes<lanes> acc[tile_rows];
    const float zero[lanes] = {};
    KEELSON_UNROLL
    for (int r = 0; r < tile_rows; ++r) acc[r].load(zero);

    const Index at_tap = tap / (g.taps[1] * g.taps[2]) * g.tap_src[0] + tap / g.taps[2] % g.taps[1] * g.tap_src[1] +
                         tap % g.taps[2] * g.tap_src[2];
    const float* src = g.src.data + g.src.base + group * g.src.step_g + at_tap;
    const float* diff = g.diff.data + g.diff.base + group * g.diff.step_g + panel * lanes;
    const Index lines = g.n * g.extent[0] * g.extent[1], begin = slot * g.lines_per_slot;
    const Index end = begin + g.lines_per_slot < lines ? begin + g.lines_per_slot : lines;
    for (Index line = begin; line < end; ++line) {
      const Index h = line % g.extent[1], d = line / g.extent[1] % g.extent[0], n = line / (g.extent[1] * g.extent[0]);
      multiply(acc, src + n * g.src.step_n + d * g.src_step[0] + h * g.src_step[1], row, g.src_step[2],
               diff + n * g.diff.step_n + d * g.diff.step[0] + h * g.diff.step[1], g.diff.step[2], g.extent[2]);
    }

    float* to =
        g.partial + ((((slot * g.groups + group) * g.panels + panel) * taps + tap) * g.rows + row_begin) * lanes;
    for (int r = 0; r < valid; ++r) acc[r].store(to + r * lanes);
  }
};

/// Adds the slots and writes the weights' own layout; one work item per (group, panel, tap, input channel).
template <int lanes>
struct AddSlots {
  const float* partial;
  float* weights;
  Index slots, groups, panels, ci, co;
  Triple kernel, tap_stride;
  Index stride_o, stride_i;

  KOKKOS_FUNCTION void operator()(Index item) const {
    float sum[lanes] = {};
    const Index slot_size = groups * panels * kernel[0] * kernel[1] * kernel[2] * ci * lanes;
    for (Index s = 0; s < slots; ++s) {
      const float* p = partial + s * slot_size + item * lanes;
      for (int l = 0; l < lanes; ++l) sum[l] += p[l];
    }
    const Index i = item % ci;
    item /= ci;
    const Index kw = item % kernel[2];
    item /= kernel[2];
    const Index kh = item % kernel[1];
    item /= kernel[1];
    const Index kd = item % kernel[0];
    item /= kernel[0];
    const Index first = item % panels * lanes, group = item / panels;
    const Index count = first + lanes < co ? lanes : co - first;
    float* to = weights + (group * co + first) * stride_o + i * stride_i + kd * tap_stride[0] + kh * tap_stride[1] +
                kw * tap_stride[2];
    for (Index l = 0; l < count; ++l) to[l * stride_o] = sum[l];
  }
};

inline constexpr int bias_lanes = 16;

/// Sums of diff_dst over the positions of a slot, in f64: (slot, channel).
struct BiasSlots {
  const float* diff;
  Volume dst;
  Index lines_per_slot;
  double* partial;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index blocks = ceil_div(dst.c, bias_lanes);
    const Index first = item % blocks * bias_lanes, slot = item / blocks;
    const int count = static_cast<int>(first + bias_lanes < dst.c ? bias_lanes : dst.c - first);
    const Index lines = dst.n * dst.extent[0] * dst.extent[1], begin = slot * lines_per_slot;
    const Index end = begin + lines_per_slot < lines ? begin + lines_per_slot : lines;
    double sum[bias_lanes] = {};
    for (Index line = begin; line < end; ++line) {
      const Index h = line % dst.extent[1], d = line / dst.extent[1] % dst.extent[0],
                  n = line / (dst.extent[1] * dst.extent[0]);
      const float* x = diff + n * dst.stride_n + d * dst.stride[0] + h * dst.stride[1] + first * dst.stride_c;
      for (Index w = 0; w < dst.extent[2]; ++w, x += dst.stride[2]) {
        if (count == bias_lanes && dst.stride_c == 1)
          for (int c = 0; c < bias_lanes; ++c) sum[c] += static_cast<double>(x[c]);
        else
          for (int c = 0; c < count; ++c) sum[c] += static_cast<double>(x[c * dst.stride_c]);
      }
    }
    for (int c = 0; c < count; ++c) partial[slot * dst.c + first + c] = sum[c];
  }
};

struct AddBias {
  const double* partial;
  Index slots, channels;
  float* diff_bias;
  KOKKOS_FUNCTION void operator()(Index c) const {
    double sum = 0;
    for (Index s = 0; s < slots; ++s) sum += partial[s * channels + c];
    diff_bias[c] = static_cast<float>(sum);
  }
};

}  // namespace keelson::kokkos
