#pragma once

#include "backends/kokkos/winograd/winograd_kernels.hpp"

/// Winograd's algorithms for a source with 4 channels, such as the first layer of a network. There are few products for
/// each tile then, and most of the time goes to moving the transformed tiles and the products through the caches. Here,
/// the products of the points of a line along d stay in registers until the line has been transformed back, and what is
/// written stays in the first cache level: fewer tiles are processed at once.
namespace keelson::kokkos {

/// Convolves groups of neighbouring tiles along W. There is one work item per worker, which processes its share of all
/// groups. U is at (panel, w, h, d, channel, lane), with panels of vector_width columns: the order in which U is read.
template <class Tile>
struct WinogradFewChannels {
  using Vec = Channels<vector_width>;
  static constexpr int channels = 4;
  /// Channels of a tile that are together in a vector, and the neighbouring tiles in a vector.
  static constexpr int quad = std::min(channels, vector_width), tiles_of_vector = std::max(1, vector_width / channels);
  using Quad = Channels<quad>;
  static constexpr int depth = Tile::points_of[0], plane = Tile::points_of[1] * Tile::points_of[2];
  static constexpr int accumulators = tile_rows * max_lanes / vector_width;
  /// Tiles of a group: as many as the products of a line along d fit into the registers.
  static constexpr int tiles = std::max(1, accumulators / depth / tiles_of_vector) * tiles_of_vector;
  static constexpr int rows = Tile::results[1];
  static constexpr int v_step = tiles * channels;                                             ///< floats between points
  static constexpr int m_step = Tile::results[0] * rows * Tile::points_of[2] * vector_width;  ///< between tiles

  WinogradGrid grid;
  TileSource source;  ///< not unpooled
  const float* u;
  Index panels, workers;
  float* scratch;
  WinogradOutput output;

  static constexpr Index scratch_of_worker() { return Tile::points * v_step + tiles * m_step; }
  KOKKOS_FUNCTION static Index groups(const WinogradGrid& grid) {
    return grid.in.n * grid.tiles[0] * grid.tiles[1] * ceil_div(grid.tiles[2], Index{tiles});
  }

  KOKKOS_FUNCTION void operator()(Index worker) const {
    const Index row_groups = ceil_div(grid.tiles[2], Index{tiles}), all = groups(grid);
    float* const v = scratch + worker * scratch_of_worker();
    float* const m = v + Tile::points * v_step;
    for (Index i = all * worker / workers; i < all * (worker + 1) / workers; ++i) {
      const Index first = i / row_groups * grid.tiles[2] + i % row_groups * tiles;
      const Index rest = grid.tiles[2] - i % row_groups * tiles;
      if (source.is_bf16)
        transform(static_cast<const bf16*>(source.data), TilePosition(grid.tiles, first), v);
      else
        transform(static_cast<const float*>(source.data), TilePosition(grid.tiles, first), v);
      for (Index panel = 0; panel < panels; ++panel) {
        multiply(v, u + panel * Tile::points * channels * vector_width, m);
        for (int t = 0; t < tiles && t < rest; ++t)
          finish(TilePosition(grid.tiles, first + t), panel * vector_width, m + t * m_step);
      }
    }
  }

  /// Writes V of a group at (point, tile, channel). Tiles behind the last one of a row are computed, too.
  template <class T>
  KOKKOS_FUNCTION void transform(const T* data, const TilePosition& first, float* v) const {
    Index begin[3];
    for (int d = 0; d < 3; ++d) begin[d] = first.at[d] * Tile::results[d] - grid.pad[d];
    data += first.n * grid.in.stride_n;
    for (int t = 0; t < tiles; t += tiles_of_vector)
      for (int c = 0; c < channels; c += quad) {
        const auto get_line = [&](int d, int h, Vec* line) {
          load_neighbors(data + c, begin[0] + d, begin[1] + h, begin[2] + t * Tile::results[2], line);
        };
        Tile::template data<Vec>(get_line,
                                 [&](int p, const Vec& value) { store(value, v + p * v_step + t * channels + c); });
      }
  }
  /// A line of neighbouring tiles in one vector; the first tile begins at `column`.
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION void load_neighbors(const T* data, Index z, Index y, Index column, Vec* line) const {
    const auto &extent = grid.in.extent, &stride = grid.in.stride;
    constexpr Index columns = (tiles_of_vector - 1) * Tile::results[2] + Tile::points_of[2];
    const bool inside = z >= 0 && z < extent[0] && y >= 0 && y < extent[1],
               all_inside = inside && column >= 0 && column + columns <= extent[2];
    const T* const from = data + z * stride[0] + y * stride[1];
    for (int w = 0; w < Tile::points_of[2]; ++w) {
      Quad q[tiles_of_vector] = {};
      KEELSON_UNROLL
      for (int t = 0; t < tiles_of_vector; ++t) {
        const Index at = column + t * Tile::results[2] + w;
        if (all_inside || (inside && at >= 0 && at < extent[2])) q[t] = load<Quad>(from + at * stride[2]);
      }
      line[w] = join(q);
    }
  }

  /// Writes the products, transformed back along d and h, at (tile, d, h, w, lane), d and h below Tile::results.
  KOKKOS_FUNCTION void multiply(const float* v, const float* filters, float* m) const {
    for (int w = 0; w < Tile::points_of[2]; ++w) {
      Vec lines[tiles][Tile::results[0]][Tile::points_of[1]];  // along h
      for (int h = 0; h < Tile::points_of[1]; ++h) {
        Vec sum[tiles][depth];
        multiply_line(v + (h * Tile::points_of[2] + w) * v_step, filters, sum);
        filters += depth * channels * vector_width;
        KEELSON_UNROLL
        for (int t = 0; t < tiles; ++t) {
          Tile::Outer::result(sum[t], 1);
          KEELSON_UNROLL
          for (int d = 0; d < Tile::results[0]; ++d) lines[t][d][h] = sum[t][d];
        }
      }
      for (int t = 0; t < tiles; ++t)
        for (int d = 0; d < Tile::results[0]; ++d) {
          Vec line[Tile::points_of[1]];
          KEELSON_UNROLL
          for (int h = 0; h < Tile::points_of[1]; ++h) line[h] = lines[t][d][h];
          Tile::Inner::result(line, 1);
          float* const to = m + ((t * Tile::results[0] + d) * rows * Tile::points_of[2] + w) * vector_width;
          KEELSON_UNROLL
          for (int h = 0; h < rows; ++h) store(line[h], to + h * Tile::points_of[2] * vector_width);
        }
    }
  }
  /// The products of the points of a line along d.
  KOKKOS_FORCEINLINE_FUNCTION static void multiply_line(const float* v, const float* filters,
                                                        Vec (&sum)[tiles][depth]) {
    KEELSON_UNROLL
    for (int d = 0; d < depth; ++d) {
      const float* const b = filters + d * channels * vector_width;
      const float* const a = v + d * plane * v_step;
      KEELSON_UNROLL
      for (int t = 0; t < tiles; ++t) sum[t][d] = Vec{};
      KEELSON_UNROLL
      for (int c = 0; c < channels; ++c) {
        const Vec filter = load<Vec>(b + c * vector_width);
        KEELSON_UNROLL
        for (int t = 0; t < tiles; ++t) sum[t][d] += a[t * channels + c] * filter;
      }
    }
  }

  KOKKOS_FUNCTION void finish(const TilePosition& position, Index column, const float* m) const {
    Vec x[Tile::points];
    for (int d = 0; d < Tile::results[0]; ++d)
      for (int h = 0; h < rows; ++h, m += Tile::points_of[2] * vector_width) {
        Vec line[Tile::points_of[2]];
        KEELSON_UNROLL
        for (int w = 0; w < Tile::points_of[2]; ++w) line[w] = load<Vec>(m + w * vector_width);
        Tile::Inner::result(line, 1);
        KEELSON_UNROLL
        for (int w = 0; w < Tile::results[2]; ++w) x[d * Tile::step[0] + h * Tile::step[1] + w] = line[w];
      }
    WinogradResults<Tile>{grid, output}.write(x, position, column);
  }
};

}  // namespace keelson::kokkos
