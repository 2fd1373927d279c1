#pragma once

#include <algorithm>

#include "backends/kokkos/conv/conv_geometry.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "backends/kokkos/winograd/winograd_tile.hpp"
#include "backends/kokkos/winograd/winograd_vectors.hpp"

/// Kernels of Winograd's algorithms along rows. A tile has m neighbouring results of a row; its algorithm reads 6
/// elements of each of the kernel's rows. Transformed elements of a tile are kept as (point, row, channel). So what a
/// result reads, the rows of the kernel times the channels, is contiguous, and a point's sums are a matrix product
/// whose rows overlap: row h + 1 begins one row of channels behind row h.
namespace keelson::kokkos {

inline constexpr int row_points = 6;

/// Images with contiguous channels.
struct RowImages {
  float* data;
  Index n, channels, rows, columns;
  Index step_n, step_row, step_column;

  explicit RowImages(const Volume& v, float* data = nullptr)
      : data(data),
        n(v.n),
        channels(v.c),
        rows(v.extent[1]),
        columns(v.extent[2]),
        step_n(v.stride_n),
        step_row(v.stride[1]),
        step_column(v.stride[2]) {}
  KOKKOS_FUNCTION float* at(Index image, Index row, Index column) const {
    return data + image * step_n + row * step_row + column * step_column;
  }
};

/// Panels of `lanes` columns of a product.
struct RowPanels {
  Index columns, lanes, panels;
  KOKKOS_FUNCTION Index padded() const { return panels * lanes; }
};

/// The work as blocks: some tiles of some rows of one image. `source` is read around the positions of the tiles.
struct RowGrid {
  Index n, rows, columns;              ///< of the results
  Index channels, taps, pad_h, pad_w;  ///< of the source; taps: rows of the kernel
  Index m, tiles;                      ///< results of a tile, tiles of a row
  Index rows_at_once = 0, tiles_at_once = 0;

  KOKKOS_FUNCTION Index row_blocks() const { return ceil_div(rows, rows_at_once); }
  KOKKOS_FUNCTION Index tile_blocks() const { return ceil_div(tiles, tiles_at_once); }
  KOKKOS_FUNCTION Index blocks() const { return n * row_blocks() * tile_blocks(); }
  KOKKOS_FUNCTION Index reduction() const { return taps * channels; }
  KOKKOS_FUNCTION Index source_rows() const { return rows_at_once + taps - 1; }
  /// Floats of a point of a block: of transformed sources, and of a matrix with `width` columns and a row per tile and
  /// row of results.
  KOKKOS_FUNCTION Index source_floats() const { return tiles_at_once * source_rows() * channels; }
  KOKKOS_FUNCTION Index result_floats(Index width) const { return tiles_at_once * rows_at_once * width; }

  /// Divides the rows and tiles so that a block's transformed operands stay in the second cache level.
  void choose_block(Index width) {
    constexpr Index near_floats = Index{32} << 10;
    rows_at_once = rows, tiles_at_once = 1;
    const auto floats = [&] { return row_points * (source_floats() + result_floats(width)); };
    while (rows_at_once > 2 * taps && floats() > near_floats) rows_at_once = ceil_div(rows_at_once, 2);
    tiles_at_once = std::clamp<Index>(near_floats / floats(), 1, tiles);
  }
};

/// One block.
struct RowBlock {
  Index image, row, tile, rows, tiles;

  KOKKOS_FUNCTION RowBlock(const RowGrid& g, Index item) {
    tile = item % g.tile_blocks() * g.tiles_at_once;
    item /= g.tile_blocks();
    row = item % g.row_blocks() * g.rows_at_once;
    image = item / g.row_blocks();
    rows = g.rows - row < g.rows_at_once ? g.rows - row : g.rows_at_once;
    tiles = g.tiles - tile < g.tiles_at_once ? g.tiles - tile : g.tiles_at_once;
  }
};

/// `width` channels of `count` elements of a row; those outside of the image are 0.
template <int width>
struct RowElements {
  using V = std::conditional_t<width == 1, float, Channels<width>>;
  V x[row_points];

  KOKKOS_FORCEINLINE_FUNCTION void read(const RowImages& from, Index image, Index row, Index column, Index channel,
                                        int count) {
    for (int j = 0; j < count; ++j) {
      const Index at = column + j;
      if (at < 0 || at >= from.columns) {
        x[j] = V{};
        continue;
      }
      const float* element = from.at(image, row, at) + channel;
      if constexpr (width == 1)
        x[j] = *element;
      else
        x[j] = load<V>(element);
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION void write(float* to, Index step) const {
    KEELSON_UNROLL
    for (int p = 0; p < row_points; ++p) {
      if constexpr (width == 1)
        to[p * step] = x[p];
      else
        store(x[p], to + p * step);
    }
  }
};

/// Calls use(std::integral_constant<int, width>, first channel) for all channels, by whole vectors first.
template <class Use>
KOKKOS_FORCEINLINE_FUNCTION void by_vectors(Index channels, const Use& use) {
  Index c = 0;
  for (; c + vector_width <= channels; c += vector_width) use(std::integral_constant<int, vector_width>{}, c);
  if constexpr (vector_width > 4)
    for (; c + 4 <= channels; c += 4) use(std::integral_constant<int, 4>{}, c);
  if constexpr (vector_width > 1)
    for (; c < channels; ++c) use(std::integral_constant<int, 1>{}, c);
}

/// Writes the transformed sources of a block: (point, tile, row, channel).
template <class Algorithm>
KOKKOS_FUNCTION void transform_sources(const RowGrid& g, const RowBlock& b, const RowImages& source, float* to) {
  const Index step = g.source_floats();
  for (Index t = 0; t < b.tiles; ++t)
    for (Index r = 0; r < b.rows + g.taps - 1; ++r) {
      float* const at = to + (t * g.source_rows() + r) * g.channels;
      const Index row = b.row + r - g.pad_h;
      if (row < 0 || row >= source.rows) {
        for (int p = 0; p < row_points; ++p)
          for (Index c = 0; c < g.channels; ++c) at[p * step + c] = 0;
        continue;
      }
      by_vectors(g.channels, [&](auto width, Index c) {
        RowElements<width.value> e;
        e.read(source, b.image, row, (b.tile + t) * g.m - g.pad_w, c, row_points);
        Algorithm::data(e.x, 1);
        e.write(at + c, step);
      });
    }
}

/// Writes the transformed filters: (point, panel, row of the kernel, channel of the source, lane). One work item per
/// (panel, row, channel).
template <class Algorithm>
struct TransformRowFilters {
  const float* weights;
  RowPanels panels;
  Index channels, taps;
  Index step_column, step_channel, step_h, step_w;  ///< of the weights; reversed filters have negative ones
  float* to;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index c = item % channels, h = item / channels % taps, panel = item / channels / taps;
    const float* from = weights + c * step_channel + h * step_h;
    for (Index l = 0; l < panels.lanes; ++l) {
      const Index column = panel * panels.lanes + l;
      float x[row_points] = {};
      if (column < panels.columns)
        for (int j = 0; j < Algorithm::taps; ++j) x[j] = from[column * step_column + j * step_w];
      Algorithm::filter(x, 1);
      for (int p = 0; p < row_points; ++p) to[p * taps * channels * panels.padded() + item * panels.lanes + l] = x[p];
    }
  }
};

template <int lanes>
inline constexpr int row_tile_rows = std::min(12, 2 * tile_rows * vector_width / lanes);

/// The forward pass, or the gradient of src as the forward pass of reversed filters. One work item per worker.
template <class Algorithm, int lanes>
struct RowWinogradWorker {
  RowGrid grid;
  RowImages source, result;
  RowPanels panels;
  const float* filters;
  const float* bias;  ///< null: none
  EltwiseParams activation;
  Index workers;
  float* scratch;

  static Index scratch_floats(const RowGrid& g, const RowPanels& panels) {
    return row_points * (g.source_floats() + g.result_floats(panels.padded()));
  }

  KOKKOS_FUNCTION void operator()(Index worker) const {
    float* const sources = scratch + worker * row_points * (grid.source_floats() + grid.result_floats(panels.padded()));
    float* const sums = sources + row_points * grid.source_floats();
    for (Index item = worker; item < grid.blocks(); item += workers) {
      const RowBlock block(grid, item);
      transform_sources<Algorithm>(grid, block, source, sources);
      multiply_points(block, sources, sums);
      for (Index c = 0; c < panels.columns; c += vector_width) finish(block, sums, c);
    }
  }

  KOKKOS_FUNCTION void multiply_points(const RowBlock& b, const float* sources, float* sums) const {
    constexpr int rows = row_tile_rows<lanes>;
    const Index all = b.tiles * b.rows, of_panel = grid.reduction() * lanes, width = panels.padded();
    for (int p = 0; p < row_points; ++p)
      for (Index panel = 0; panel < panels.panels; ++panel)
        for (Index first = 0; first < all; first += rows) {
          const int valid = static_cast<int>(all - first < rows ? all - first : rows);
          Index row[rows];
          Index tile = first / b.rows, h = first % b.rows;
          for (int r = 0; r < rows; ++r) {
            row[r] = (tile * grid.source_rows() + h) * grid.channels;
            if (r + 1 < valid && ++h == b.rows) ++tile, h = 0;
          }
          Lanes<lanes> acc[rows];
          const float zero[lanes] = {};
          KEELSON_UNROLL
          for (int r = 0; r < rows; ++r) acc[r].load(zero);
          multiply(acc, sources + p * grid.source_floats(), row, 1, filters + (p * panels.panels + panel) * of_panel,
                   Index{lanes}, grid.reduction());
          float* to = sums + p * grid.result_floats(width) + first * width + panel * lanes;
          for (int r = 0; r < valid; ++r) acc[r].store(to + r * width);
        }
  }

  /// A vector of channels of all results of the block.
  KOKKOS_FUNCTION void finish(const RowBlock& b, const float* sums, Index channel) const {
    using V = Channels<vector_width>;
    const Index width = panels.padded(), step = grid.result_floats(width);
    const int count =
        static_cast<int>(panels.columns - channel < vector_width ? panels.columns - channel : vector_width);
    float offset[vector_width] = {};
    if (bias)
      for (int l = 0; l < count; ++l) offset[l] = bias[channel + l];
    const V offsets = load<V>(offset);
    for (Index q = 0; q < b.tiles * b.rows; ++q) {
      V x[row_points];
      for (int p = 0; p < row_points; ++p) x[p] = load<V>(sums + p * step + q * width + channel);
      Algorithm::result(x, 1);
      const Index column = (b.tile + q / b.rows) * grid.m, row = b.row + q % b.rows;
      for (Index j = 0; j < grid.m && column + j < grid.columns; ++j) {
        float y[vector_width];
        store(x[j] + offsets, y);
        activate(activation, y);
        float* to = result.at(b.image, row, column + j) + channel;
        if (count == vector_width)
          for (int l = 0; l < vector_width; ++l) to[l] = y[l];
        else
          for (int l = 0; l < count; ++l) to[l] = y[l];
      }
    }
  }
};

/// The gradient of the weights: for each slot of blocks the sums (point, panel, row of the kernel and channel, lane). A
/// sum does not depend on the number of workers. One work item per worker.
template <class Algorithm, int lanes>
struct RowWeightsWorker {
  RowGrid grid;
  RowImages source, gradient;
  RowPanels panels;
  Index slots, blocks_of_slot, workers;
  float *scratch, *sums;

  KOKKOS_FUNCTION Index slot_floats() const { return row_points * grid.reduction() * panels.padded(); }

  KOKKOS_FUNCTION void operator()(Index worker) const {
    float* const sources = scratch + worker * row_points * (grid.source_floats() + grid.result_floats(panels.padded()));
    float* const gradients = sources + row_points * grid.source_floats();
    for (Index slot = worker; slot < slots; slot += workers) {
      const Index begin = slot * blocks_of_slot, rest = grid.blocks() - begin;
      float* const to = sums + slot * slot_floats();
      for (Index i = 0; i < slot_floats(); ++i) to[i] = 0;
      for (Index i = 0; i < (rest < blocks_of_slot ? rest : blocks_of_slot); ++i) {
        const RowBlock block(grid, begin + i);
        transform_sources<Algorithm>(grid, block, source, sources);
        transform_gradients(block, gradients);
        add_products(block, sources, gradients, to);
      }
    }
  }

  /// (point, tile, row, channel), with zeros behind the last channel.
  KOKKOS_FUNCTION void transform_gradients(const RowBlock& b, float* to) const {
    const Index width = panels.padded(), step = grid.result_floats(width);
    for (Index q = 0; q < b.tiles * b.rows; ++q) {
      float* const at = to + q * width;
      by_vectors(panels.columns, [&](auto lane_count, Index c) {
        RowElements<lane_count.value> e;
        e.read(gradient, b.image, b.row + q % b.rows, (b.tile + q / b.rows) * grid.m, c, static_cast<int>(grid.m));
        Algorithm::diff(e.x, 1);
        e.write(at + c, step);
      });
      for (int p = 0; p < row_points; ++p)
        for (Index c = panels.columns; c < width; ++c) at[p * step + c] = 0;
    }
  }

  KOKKOS_FUNCTION void add_products(const RowBlock& b, const float* sources, const float* gradients, float* to) const {
    constexpr int rows = row_tile_rows<lanes>;
    const Index reduction = grid.reduction(), width = panels.padded();
    for (int p = 0; p < row_points; ++p)
      for (Index panel = 0; panel < panels.panels; ++panel)
        for (Index first = 0; first < reduction; first += rows) {
          const int valid = static_cast<int>(reduction - first < rows ? reduction - first : rows);
          Index row[rows];
          for (int r = 0; r < rows; ++r) row[r] = r < valid ? r : valid - 1;
          float* const sum = to + ((p * panels.panels + panel) * reduction + first) * lanes;
          Lanes<lanes> acc[rows];
          const float zero[lanes] = {};
          KEELSON_UNROLL
          for (int r = 0; r < rows; ++r) acc[r].load(r < valid ? sum + r * lanes : zero);
          for (Index t = 0; t < b.tiles; ++t)
            multiply(acc, sources + p * grid.source_floats() + t * grid.source_rows() * grid.channels + first, row,
                     grid.channels, gradients + p * grid.result_floats(width) + t * b.rows * width + panel * lanes,
                     width, b.rows);
          for (int r = 0; r < valid; ++r) acc[r].store(sum + r * lanes);
        }
  }
};

/// Adds the slots and writes the gradient of the weights. One work item per (panel, row of the kernel, channel).
template <class Algorithm>
struct AddRowSlots {
  const float* sums;
  Index slots;
  RowPanels panels;
  Index channels, taps;
  Index step_column, step_channel, step_h, step_w;  ///< of the weights
  float* weights;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index c = item % channels, h = item / channels % taps, panel = item / channels / taps;
    const Index of_point = taps * channels * panels.padded();
    for (Index l = 0; l < panels.lanes; ++l) {
      const Index column = panel * panels.lanes + l;
      if (column >= panels.columns) return;
      float x[row_points] = {};
      for (Index s = 0; s < slots; ++s)
        for (int p = 0; p < row_points; ++p) x[p] += sums[(s * row_points + p) * of_point + item * panels.lanes + l];
      Algorithm::filter_gradient(x, 1);
      for (int j = 0; j < Algorithm::taps; ++j)
        weights[column * step_column + c * step_channel + h * step_h + j * step_w] = x[j];
    }
  }
};

}  // namespace keelson::kokkos
