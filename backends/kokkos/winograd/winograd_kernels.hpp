#pragma once

#include "backends/kokkos/winograd/winograd_results.hpp"

/// Kernels of convolutions by Winograd's algorithms on CPUs, channels-last. V are the transformed tiles of the input, U
/// the transformed filters, M their products.
namespace keelson::kokkos {

/// The source of a pass's tiles: a channels-last tensor, f32 or bf16; or the gradient of the result of a convolution
/// with max pooling, of which only the gradient of the pooled result and the argmax indices are in memory. Outside of
/// the tensor, elements are zero.
struct TileSource {
  const void* data;
  bool is_bf16;
  Volume volume;                         ///< the volume of the tiles' elements
  Volume pooled;                         ///< if there is an argmax: the volume of data and argmax
  Triple window = {1, 1, 1};             ///< windows have no gap or overlap
  const std::uint8_t* argmax = nullptr;  ///< indices in the windows, row by row, at the offsets of `data`

  TileSource(const void* d, DType type, const Volume& v)
      : data(d), is_bf16(type == DType::bf16), volume(v), pooled(v) {}
  TileSource(const float* diff_pooled, const std::uint8_t* argmax_indices, const Volume& of_pooled,
             const Triple& windows, const Volume& v)
      : data(diff_pooled), is_bf16(false), volume(v), pooled(of_pooled), window(windows), argmax(argmax_indices) {}
};

/// A part of a sample's tile, and where its vectors are stored: (d, h, w) at d * step[0] + h * step[1] + w.
struct TilePart {
  Index n;
  Index begin[3];  ///< coordinates of the first element, which may be outside of the tensor
  int extent[3];
  Index step[2];
};

/// The elements (z, y, first to first + count) of some channels. `data`: the first element of these channels in the
/// sample. Elements `next` behind those read are prefetched.
template <int count, class Vec, class T>
KOKKOS_FORCEINLINE_FUNCTION void load_line(const T* data, const Volume& v, Index z, Index y, Index first, Index next,
                                           Vec* line) {
  const bool inside = z >= 0 && z < v.extent[0] && y >= 0 && y < v.extent[1];
  const T* const from = data + z * v.stride[0] + y * v.stride[1] + first * v.stride[2];
  KEELSON_UNROLL
  for (int w = 0; w < count; ++w) prefetch<true>(from + w * v.stride[2] + next);
  if (inside && first >= 0 && first + count <= v.extent[2]) {
    KEELSON_UNROLL
    for (int w = 0; w < count; ++w) line[w] = load<Vec>(from + w * v.stride[2]);
    return;
  }
  KEELSON_UNROLL
  for (int w = 0; w < count; ++w)
    line[w] = inside && first + w >= 0 && first + w < v.extent[2] ? load<Vec>(from + w * v.stride[2]) : Vec{};
}

/// The elements of a window, along one dim, that are inside of a part of a tile.
struct WindowRange {
  Index begin;  ///< of the window in the part
  int first, end;

  KOKKOS_FORCEINLINE_FUNCTION WindowRange(Index at, Index side, int extent)
      : begin(at),
        first(static_cast<int>(at < 0 ? -at : 0)),
        end(static_cast<int>(at + side < extent ? side : extent - at)) {}
};

/// Writes a part of a tile of the gradient of max pooling to x: the gradient of a window belongs to its largest
/// element.
template <class Vec>
KOKKOS_FORCEINLINE_FUNCTION void load_unpooled(const TileSource& s, const TilePart& part, Index channel, Vec* x) {
  Index first[3], end[3];  // range of the windows in the part
  bool covered = true;     // windows cover the whole part
  for (int i = 0; i < 3; ++i) {
    const Index last = part.begin[i] + part.extent[i], count = s.pooled.extent[i], side = s.window[i];
    first[i] = part.begin[i] > 0 ? part.begin[i] / side : 0;
    end[i] = last <= 0 ? 0 : ceil_div(last, side) < count ? ceil_div(last, side) : count;
    covered = covered && part.begin[i] >= 0 && last <= count * side;
  }
  if (!covered)
    for (int d = 0; d < part.extent[0]; ++d)
      for (int h = 0; h < part.extent[1]; ++h)
        for (int w = 0; w < part.extent[2]; ++w) x[d * part.step[0] + h * part.step[1] + w] = Vec{};
  for (Index z = first[0]; z < end[0]; ++z)
    for (Index y = first[1]; y < end[1]; ++y)
      for (Index c = first[2]; c < end[2]; ++c) {
        const Index at = part.n * s.pooled.stride_n + z * s.pooled.stride[0] + y * s.pooled.stride[1] +
                         c * s.pooled.stride[2] + channel;
        const Vec diff = load<Vec>(static_cast<const float*>(s.data) + at);
        const auto chosen = load_integers<Vec>(s.argmax + at);
        const WindowRange d(z * s.window[0] - part.begin[0], s.window[0], part.extent[0]),
            h(y * s.window[1] - part.begin[1], s.window[1], part.extent[1]),
            w(c * s.window[2] - part.begin[2], s.window[2], part.extent[2]);
        for (int i = d.first; i < d.end; ++i)
          for (int j = h.first; j < h.end; ++j)
            for (int k = w.first; k < w.end; ++k) {
              const int index = static_cast<int>((i * s.window[1] + j) * s.window[2]) + k;
              x[(d.begin + i) * part.step[0] + (h.begin + j) * part.step[1] + w.begin + k] =
                  chosen == index ? diff : Vec{};
            }
      }
}

/// Calls use(get_line), where get_line(d, h, line) loads a line of a part of a tile, `count` elements of the channels
/// from `channel` on. Elements `next` behind them are prefetched if they are in memory.
template <int points, int count, class Vec, class Use>
KOKKOS_FORCEINLINE_FUNCTION void with_lines(const TileSource& s, const TilePart& part, Index channel, Index next,
                                            const Use& use) {
  Vec unpooled[points];
  if (s.argmax) load_unpooled(s, part, channel, unpooled);
  const Index first = part.n * s.volume.stride_n + channel;
  use([&](int d, int h, Vec* line) {
    const Index z = part.begin[0] + d, y = part.begin[1] + h;
    if (s.argmax) {
      KEELSON_UNROLL
      for (int w = 0; w < count; ++w) line[w] = unpooled[d * part.step[0] + h * part.step[1] + w];
    } else if (s.is_bf16) {
      load_line<count>(static_cast<const bf16*>(s.data) + first, s.volume, z, y, part.begin[2], next, line);
    } else {
      load_line<count>(static_cast<const float*>(s.data) + first, s.volume, z, y, part.begin[2], next, line);
    }
  });
}

/// How far the elements of the next tile are from those of `tile`.
template <class Tile>
KOKKOS_FORCEINLINE_FUNCTION Index to_next_tile(const Volume& v, const Triple& tiles, Index tile) {
  const TilePosition a(tiles, tile), b(tiles, tile + 1);
  Index distance = (b.n - a.n) * v.stride_n;
  for (int d = 0; d < 3; ++d) distance += (b.at[d] - a.at[d]) * Tile::results[d] * v.stride[d];
  return distance;
}

/// Writes V of one tile: vector i of the channels of point p at to[p * step + i * vector_step]. The next tile is `next`
/// behind the tile.
template <class Tile, class Vec>
KOKKOS_FORCEINLINE_FUNCTION void transform_input(const TileSource& s, Index n, const Index (&begin)[3], Index channels,
                                                 Index next, float* to, Index step,
                                                 Index vector_step = sizeof(Vec) / sizeof(float)) {
  constexpr Index width = sizeof(Vec) / sizeof(float);
  constexpr auto& extent = Tile::points_of;
  const TilePart part{
      n, {begin[0], begin[1], begin[2]}, {extent[0], extent[1], extent[2]}, {Tile::step[0], Tile::step[1]}};
  for (Index c = 0; c < channels; c += width, to += vector_step)
    with_lines<Tile::points, extent[2], Vec>(
        s, part, c, c + width < channels ? width : next - c, [&](const auto& get_line) {
          Tile::template data<Vec>(get_line, [&](int p, const Vec& value) { store(value, to + p * step); });
        });
}

/// How far U is read ahead: it comes from the third cache level.
inline constexpr Index filter_floats_ahead = 1024;

/// acc[r] += sum over k of a[r a_row + k] b[k b_step ... + lanes). `prefetches`: what lies behind b is prefetched.
template <bool prefetches, int rows, int lanes>
KOKKOS_FORCEINLINE_FUNCTION void multiply_rows(Lanes<lanes> (&acc)[rows], const float* a, Index a_row, const float* b,
                                               Index count) {
  const float* row[rows];
  KEELSON_UNROLL
  for (int r = 0; r < rows; ++r) row[r] = a + r * a_row;
  for (Index k = 0; k < count; k += 4, b += 4 * lanes) {
    KEELSON_UNROLL
    for (int j = 0; j < 4; ++j) {
      if constexpr (prefetches) {
        KEELSON_UNROLL
        for (int l = 0; l < lanes; l += floats_of_line) prefetch<true>(b + j * lanes + l + filter_floats_ahead);
      }
      Lanes<lanes> bk;
      bk.load(b + j * lanes);
      KEELSON_UNROLL
      for (int r = 0; r < rows; ++r) acc[r].add_scaled(row[r][k + j], bk);
    }
  }
}

/// Transforms the filters: U at (panel, point, inner channel, lane), the points in the order (d, h, w); by_lines: in
/// the order (w, h, d). One work item per (panel, inner channel).
template <class Tile, class T, int lanes, bool by_lines = false>
struct TransformFilters {
  const T* weights;
  Index inner, columns;               ///< channels of the reduction, and of the result
  Index inner_stride, column_stride;  ///< of the weights
  Triple tap_stride;                  ///< negative if the filter is reversed
  float* u;

  KOKKOS_FUNCTION void operator()(Index item) const {
    using Vec = Channels<vector_width>;
    const Index panel = item / inner, i = item % inner;
    float* const to = u + (panel * Tile::points * inner + i) * lanes;
    for (Index first = 0; first < lanes; first += vector_width) {
      const Index column = panel * lanes + first;
      const Index valid = columns - column < vector_width ? columns - column : vector_width;
      Vec x[Tile::points];
      for (int d = 0; d < Tile::taps_of[0]; ++d)
        for (int h = 0; h < Tile::taps_of[1]; ++h)
          for (int w = 0; w < Tile::taps_of[2]; ++w) {
            const T* from = weights + i * inner_stride + column * column_stride + d * tap_stride[0] +
                            h * tap_stride[1] + w * tap_stride[2];
            float line[vector_width] = {};
            for (Index l = 0; l < valid; ++l) line[l] = value_of(from[l * column_stride]);
            x[d * Tile::step[0] + h * Tile::step[1] + w] = load<Vec>(line);
          }
      Tile::filter(x);
      for (int p = 0; p < Tile::points; ++p) store(x[p], to + position(p) * inner * lanes + first);
    }
  }

 private:
  KOKKOS_FUNCTION static Index position(int p) {
    constexpr auto& n = Tile::points_of;
    return by_lines ? (p % n[2] * n[1] + p / n[2] % n[1]) * n[0] + p / (n[1] * n[2]) : p;
  }
};

/// Convolves blocks of tiles. There is one work item per worker, which processes its share of all (block, group of
/// panels).
template <class Tile, int lanes>
struct WinogradTiles {
  using Vec = Channels<vector_width>;
  WinogradGrid grid;
  TileSource source;
  const float* u;
  Index inner, columns;  ///< channels of the source, and of the result
  Index block;           ///< tiles of a block, a multiple of tile_rows
  Index panels, groups;  ///< panels of columns; groups of panels, which different workers may process
  Index workers;
  float* scratch;
  WinogradOutput output;

  /// floats between points, so that the points of a tile do not share a set of the caches
  static constexpr Index gap = 16;
  KOKKOS_FUNCTION static Index input_step(Index block, Index inner) { return block * inner + gap; }
  KOKKOS_FUNCTION static Index product_step(Index block) { return block * lanes + gap; }
  /// Floats of scratch memory for one worker.
  static Index scratch_of_worker(Index block, Index inner) {
    return Tile::points * (input_step(block, inner) + product_step(block));
  }

  KOKKOS_FUNCTION void operator()(Index worker) const {
    const Index blocks = ceil_div(grid.tile_count, block), v_step = input_step(block, inner);
    float* const v = scratch + worker * scratch_of_worker(block, inner);
    float* const m = v + Tile::points * v_step;
    Index done = -1;  // the block in V
    for (Index work = blocks * groups * worker / workers; work < blocks * groups * (worker + 1) / workers; ++work) {
      const Index number = work / groups, group = work % groups;
      const Index first = number * block, count = grid.tile_count - first < block ? grid.tile_count - first : block;
      if (number != done) transform(first, count, v, v_step);
      done = number;
      for (Index panel = group * panels / groups; panel < (group + 1) * panels / groups; ++panel) {
        multiply(v, v_step, panel, count, m);
        for (Index t = 0; t < count; ++t) finish(first + t, panel, m + t * lanes);
      }
    }
  }

  KOKKOS_FUNCTION void transform(Index first, Index count, float* v, Index v_step) const {
    for (Index t = 0; t < count; ++t) {
      const TilePosition position(grid.tiles, first + t);
      Index begin[3];
      for (int d = 0; d < 3; ++d) begin[d] = position.at[d] * Tile::results[d] - grid.pad[d];
      const Index next = to_next_tile<Tile>(source.volume, grid.tiles, first + t);
      if (inner % vector_width == 0)
        transform_input<Tile, Vec>(source, position.n, begin, inner, next, v + t * inner, v_step);
      else
        transform_input<Tile, Channels<std::min(4, vector_width)>>(source, position.n, begin, inner, next,
                                                                   v + t * inner, v_step);
    }
  }

  KOKKOS_FUNCTION void multiply(const float* v, Index v_step, Index panel, Index count, float* m) const {
    for (Index p = 0; p < Tile::points; ++p) {
      const float* const b = u + (panel * Tile::points + p) * inner * lanes;
      for (Index t = 0; t < count; t += tile_rows) {
        Lanes<lanes> acc[tile_rows];
        KEELSON_UNROLL
        for (int r = 0; r < tile_rows; ++r)
          for (auto& part : acc[r].part) part = typename Lanes<lanes>::Vector{};
        const float* const a = v + p * v_step + t * inner;
        if (t == 0)
          multiply_rows<true>(acc, a, inner, b, inner);
        else
          multiply_rows<false>(acc, a, inner, b, inner);
        float* const to = m + p * product_step(block) + t * lanes;
        KEELSON_UNROLL
        for (int r = 0; r < tile_rows; ++r) acc[r].store(to + r * lanes);
      }
    }
  }

  KOKKOS_FUNCTION void finish(Index tile, Index panel, const float* m) const {
    const TilePosition position(grid.tiles, tile);
    for (Index first = 0; first < lanes; first += vector_width) {
      const Index column = panel * lanes + first;
      if (column >= columns) return;
      const WinogradResults<Tile> results{grid, output};
      results.prefetch(position, column);
      Vec x[Tile::points];
      Tile::result([&](int p) { return load<Vec>(m + p * product_step(block) + first); }, x);
      results.write(x, position, column);
    }
  }
};

}  // namespace keelson::kokkos
