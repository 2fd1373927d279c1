#pragma once

#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/conv/conv_geometry.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "backends/kokkos/winograd/winograd_tile.hpp"
#include "backends/kokkos/winograd/winograd_vectors.hpp"

/// The last step of the kernels of Winograd's algorithms: what happens to a tile's results.
namespace keelson::kokkos {

/// The tiles of a convolution.
struct WinogradGrid {
  Volume in, out;    ///< channels-last; `out` is the result of the convolution (before pooling)
  Triple pad;        ///< zeros before the first element of `in`
  Triple tiles;      ///< number along each dim of one sample
  Index tile_count;  ///< number in all samples

  WinogradGrid(const Volume& i, const Volume& o, const Triple& p, const int (&results)[3])
      : in(i), out(o), pad(p), tile_count(i.n) {
    for (int d = 0; d < 3; ++d) tile_count *= tiles[d] = ceil_div(out.extent[d], Index{results[d]});
  }
};

/// Sample and coordinates of a tile.
struct TilePosition {
  Index n;
  Index at[3];  ///< coordinates in tiles

  KOKKOS_FUNCTION TilePosition(const Triple& tiles, Index tile) {
    for (int d = 2; d >= 0; --d) at[d] = tile % tiles[d], tile /= tiles[d];
    n = tile;
  }
};

/// The memory for the results of a tile.
struct WinogradOutput {
  float* dst;                      ///< result of the convolution, or of the pooling
  Volume pool;                     ///< if `pooled`: the volume of the pooled result
  std::uint8_t* argmax = nullptr;  ///< the first largest element of each window, (d * 2 + h) * 2 + w; or null
  const float* bias = nullptr;
  ops::EltwiseParams activation;
  bool pooled = false;  ///< max pooling of windows of 2 along each dim, without gap or overlap
};

/// Writes results of tiles.
template <class Tile>
struct WinogradResults {
  using Vec = Channels<vector_width>;
  const WinogradGrid& grid;
  const WinogradOutput& output;

  /// Prefetches the memory that write() writes: a tile's results lie far apart.
  KOKKOS_FUNCTION void prefetch(const TilePosition& position, Index column) const {
    const Volume& to = output.pooled ? output.pool : grid.out;
    const int side = output.pooled ? 2 : 1;
    Index extent[3], at = position.n * to.stride_n + column;
    for (int d = 0; d < 3; ++d) {
      extent[d] = (Tile::results[d] + side - 1) / side;
      at += position.at[d] * extent[d] * to.stride[d];
    }
    for (Index d = 0; d < extent[0]; ++d)
      for (Index h = 0; h < extent[1]; ++h)
        for (Index w = 0; w < extent[2]; ++w)
          prefetch_to_write(output.dst + at + d * to.stride[0] + h * to.stride[1] + w * to.stride[2]);
  }

  /// Adds the bias, applies the activation, and writes the results, or their pooling, of the channels from `column` on.
  /// x: the results at (d, h, w) below Tile::results; it is overwritten.
  KOKKOS_FUNCTION void write(Vec* x, const TilePosition& position, Index column) const {
    activate(x, column);
    if (output.pooled)
      pool(x, position, column);
    else
      store_results(x, position, column);
  }

 private:
  KOKKOS_FUNCTION void activate(Vec* x, Index column) const {
    Vec bias{};
    if (output.bias) bias = load<Vec>(output.bias + column);
    if (output.activation.kind == ops::EltwiseKind::identity && !output.bias) return;
    with_function(output.activation.kind, [&](auto f) {
      const ops::EltwiseParams params = output.activation;
      for (int d = 0; d < Tile::results[0]; ++d)
        for (int h = 0; h < Tile::results[1]; ++h)
          for (int w = 0; w < Tile::results[2]; ++w) {
            Vec& y = x[d * Tile::step[0] + h * Tile::step[1] + w];
            y += bias;
            float* const lane = reinterpret_cast<float*>(&y);
            KEELSON_KEEP_LOOP
            for (int l = 0; l < vector_width; ++l) lane[l] = decltype(f)::value(params, lane[l]);
          }
    });
  }

  KOKKOS_FUNCTION void store_results(const Vec* x, const TilePosition& position, Index column) const {
    const Volume& to = grid.out;
    for (int d = 0; d < Tile::results[0]; ++d)
      for (int h = 0; h < Tile::results[1]; ++h)
        for (int w = 0; w < Tile::results[2]; ++w) {
          const Index z = position.at[0] * Tile::results[0] + d, y = position.at[1] * Tile::results[1] + h,
                      c = position.at[2] * Tile::results[2] + w;
          if (z >= to.extent[0] || y >= to.extent[1] || c >= to.extent[2]) continue;
          store(x[d * Tile::step[0] + h * Tile::step[1] + w], output.dst + position.n * to.stride_n + z * to.stride[0] +
                                                                  y * to.stride[1] + c * to.stride[2] + column);
        }
  }

  /// For tiles with an even number of results along each dim: no window crosses the border of its tile.
  KOKKOS_FUNCTION void pool(const Vec* x, const TilePosition& position, Index column) const {
    const Volume& to = output.pool;
    constexpr int windows[3] = {(Tile::results[0] + 1) / 2, Tile::results[1] / 2, Tile::results[2] / 2};
    for (int d = 0; d < windows[0]; ++d)
      for (int h = 0; h < windows[1]; ++h)
        for (int w = 0; w < windows[2]; ++w) {
          const Index z = position.at[0] * windows[0] + d, y = position.at[1] * windows[1] + h,
                      c = position.at[2] * windows[2] + w;
          if (z >= to.extent[0] || y >= to.extent[1] || c >= to.extent[2]) continue;
          const Index at = position.n * to.stride_n + z * to.stride[0] + y * to.stride[1] + c * to.stride[2] + column;
          pool_window(x + 2 * (d * Tile::step[0] + h * Tile::step[1] + w), at);
        }
  }

  KOKKOS_FUNCTION void pool_window(const Vec* x, Index at) const {
    constexpr int depth = Tile::results[0] > 1 ? 2 : 1;
    float best[vector_width];
    std::int32_t which[vector_width] = {};
    store(x[0], best);
    for (int i = 1; i < 4 * depth; ++i) {
      const float* const lane =
          reinterpret_cast<const float*>(x + i / 4 * Tile::step[0] + i / 2 % 2 * Tile::step[1] + i % 2);
      KEELSON_KEEP_LOOP
      for (int l = 0; l < vector_width; ++l) {
        // The first largest element is taken. A NaN is taken unless there was an earlier NaN.
        const bool take = !(lane[l] <= best[l]) & (best[l] == best[l]);
        best[l] = take ? lane[l] : best[l];
        which[l] = take ? i : which[l];
      }
    }
    store(load<Vec>(best), output.dst + at);
    if (output.argmax) {
      KEELSON_KEEP_LOOP
      for (int l = 0; l < vector_width; ++l) output.argmax[at + l] = static_cast<std::uint8_t>(which[l]);
    }
  }
};

}  // namespace keelson::kokkos
