#pragma once

#include "backends/kokkos/winograd/winograd_kernels.hpp"

/// Kernels of the gradient of the weights by Winograd's algorithms. For each block of tiles, V and the transformed
/// gradients D are written, then their products are added to the gradients of the transformed filters. If these sums
/// are small, the tiles are divided into slots: a thread has its own blocks and sums, and processes one slot after the
/// other. If they are large, all threads work on the same block, each on its own part of the sums. In both cases, no
/// sum depends on the number of threads.
namespace keelson::kokkos {

/// The transformed tiles of a block: (point, panel of channels, tile, channel of the panel). Panels keep what a kernel
/// reads together: channels-last tiles, a power of 2 apart, would share a few sets of the first cache level.
struct TransformedTiles {
  float* data;
  Index step, channels;     ///< step: from point to point
  Index lanes, panel_step;  ///< of a panel

  /// Of channel c of the first tile.
  KOKKOS_FUNCTION Index offset(Index c) const { return c / lanes * panel_step + c % lanes; }
};

/// Writes V or D of some tiles of a block. One work item per run of tiles.
template <class Tile>
struct TransformTiles {
  using Vec = Channels<vector_width>;
  WinogradGrid grid;
  TileSource source, gradient;  ///< src and the gradient of dst
  TransformedTiles v, d;
  Index first, count, tiles_per_item;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index end = (item + 1) * tiles_per_item < count ? (item + 1) * tiles_per_item : count;
    for (Index t = item * tiles_per_item; t < end; ++t) {
      const TilePosition position(grid.tiles, first + t);
      TilePart results{position.n, {}, {}, {Tile::step[0], Tile::step[1]}};
      Index begin[3];
      for (int i = 0; i < 3; ++i) {
        results.begin[i] = position.at[i] * Tile::results[i];
        results.extent[i] = Tile::results[i];
        begin[i] = results.begin[i] - grid.pad[i];
      }
      transform_input<Tile, Vec>(source, position.n, begin, v.channels,
                                 to_next_tile<Tile>(source.volume, grid.tiles, first + t), v.data + t * v.lanes, v.step,
                                 v.panel_step);
      const Index next = to_next_tile<Tile>(gradient.volume, grid.tiles, first + t);
      for (Index c = 0; c < d.channels; c += vector_width) {
        float* const to = d.data + t * d.lanes + d.offset(c);
        with_lines<Tile::points, Tile::results[2], Vec>(
            gradient, results, c, c + vector_width < d.channels ? vector_width : next - c, [&](const auto& get_line) {
              Tile::template diff<Vec>(get_line, [&](int p, const Vec& value) { store(value, to + p * d.step); });
            });
      }
    }
  }
};

/// Adds a block's products to the sums (point, panel, source channel, lane); one work item per point and panel.
template <class Tile, int lanes>
struct MultiplyTiles {
  /// Sums of so many tiles are added to those before. One sum over hundreds of tiles would round more.
  static constexpr Index tiles_at_once = 64;
  TransformedTiles v, d;
  Index count, panels;
  bool first;  ///< the first block initialises the sums
  float* sums;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index p = item / panels, panel = item % panels;
    const float* const a = v.data + p * v.step;
    const float* const b = d.data + p * d.step + panel * d.panel_step;
    float* const to = sums + item * v.channels * lanes;
    for (Index c = 0; c < v.channels; c += tile_rows) {
      const Index valid = v.channels - c < tile_rows ? v.channels - c : tile_rows;
      Index row[tile_rows];
      for (int r = 0; r < tile_rows; ++r) row[r] = v.offset(c + (r < valid ? r : valid - 1));
      for (Index begin = 0; begin < count; begin += tiles_at_once) {
        const float zero[lanes] = {};
        Lanes<lanes> acc[tile_rows];
        KEELSON_UNROLL
        for (int r = 0; r < tile_rows; ++r) acc[r].load(zero);
        multiply(acc, a + begin * v.lanes, row, v.lanes, b + begin * lanes, Index{lanes},
                 count - begin < tiles_at_once ? count - begin : tiles_at_once);
        for (int r = 0; r < valid; ++r) {
          Lanes<lanes> before;
          before.load(first && begin == 0 ? zero : to + (c + r) * lanes);
          acc[r].add_scaled(1.0f, before);
          acc[r].store(to + (c + r) * lanes);
        }
      }
    }
  }
};

/// Transforms the sums into the gradient of the weights; one work item per panel and source channel.
template <class Tile, int lanes>
struct TransformSums {
  const float* sums;
  Index panels, channels, filters;
  float* diff_weights;
  Index channel_stride, filter_stride;
  Triple tap_stride;

  KOKKOS_FUNCTION void operator()(Index item) const {
    using Vec = Channels<vector_width>;
    const Index panel = item / channels, c = item % channels;
    for (Index first = 0; first < lanes && panel * lanes + first < filters; first += vector_width) {
      Vec x[Tile::points];
      for (int p = 0; p < Tile::points; ++p)
        x[p] = load<Vec>(sums + ((p * panels + panel) * channels + c) * lanes + first);
      Tile::filter_gradient(x);
      float* const to = diff_weights + (panel * lanes + first) * filter_stride + c * channel_stride;
      for (int d = 0; d < Tile::taps_of[0]; ++d)
        for (int h = 0; h < Tile::taps_of[1]; ++h)
          for (int w = 0; w < Tile::taps_of[2]; ++w) {
            const float* const lane = reinterpret_cast<const float*>(x + d * Tile::step[0] + h * Tile::step[1] + w);
            float* const tap = to + d * tap_stride[0] + h * tap_stride[1] + w * tap_stride[2];
            for (int l = 0; l < vector_width; ++l) tap[l * filter_stride] = lane[l];
          }
    }
  }
};

/// The gradients of the weights of all slots. There is one work item per worker, which processes its share of the
/// slots.
template <class Tile, int lanes>
struct SlotsOfWeights {
  WinogradGrid grid;
  TileSource source, gradient;
  TransformedTiles v, d;          ///< of the first worker
  Index block;                    ///< tiles
  TransformSums<Tile, lanes> to;  ///< of the first worker and slot
  Index slot_floats, slots, workers;
  float* sums;

  static constexpr Index floats_of(const TransformedTiles& t) { return Tile::points * t.step + max_lanes; }

  KOKKOS_FUNCTION void operator()(Index worker) const {
    TransformedTiles own_v = v, own_d = d;
    own_v.data += worker * floats_of(v);
    own_d.data += worker * floats_of(d);
    TransformSums<Tile, lanes> end = to;
    float* const own_sums = sums + worker * Tile::points * to.panels * lanes * to.channels;
    end.sums = own_sums;
    for (Index slot = slots * worker / workers; slot < slots * (worker + 1) / workers; ++slot) {
      const Index begin = grid.tile_count * slot / slots, tiles = grid.tile_count * (slot + 1) / slots - begin;
      const Index blocks = ceil_div(tiles, block);
      for (Index b = 0; b < blocks; ++b) {
        const Index first = begin + tiles * b / blocks, count = begin + tiles * (b + 1) / blocks - first;
        TransformTiles<Tile>{grid, source, gradient, own_v, own_d, first, count, count}(0);
        const MultiplyTiles<Tile, lanes> multiply{own_v, own_d, count, to.panels, b == 0, own_sums};
        for (Index i = 0; i < Tile::points * to.panels; ++i) multiply(i);
      }
      end.diff_weights = to.diff_weights + slot * slot_floats;
      for (Index i = 0; i < to.panels * to.channels; ++i) end(i);
    }
  }
};

}  // namespace keelson::kokkos
