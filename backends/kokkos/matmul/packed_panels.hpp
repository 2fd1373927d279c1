#pragma once

#include <utility>

#include "backends/kokkos/common/tile.hpp"

/// Copies of parts of matrices as panels, for packed_gemm.cpp: a panel has some rows of a, or some columns of b (its
/// lanes), and holds for one step of the reduction after the other the elements of all lanes.
namespace keelson::kokkos {

/// The sums of a tile: rows x up to most_vectors vectors. With AVX-512, a step of the reduction loads 3 vectors of b
/// and 8 elements of a for 24 multiply-adds.
inline constexpr int rows_of_panel = tile_rows / 3 * 2, most_vectors = 3;

/// Panels of rows of a.
struct PanelsOfRows {
  static constexpr int piece = rows_of_panel < vector_width ? rows_of_panel : vector_width;
  KOKKOS_FUNCTION Index offset(Index row, Index depth) const {
    return row / rows_of_panel * rows_of_panel * depth + row % rows_of_panel;
  }
  KOKKOS_FUNCTION Index step(Index) const { return rows_of_panel; }
  /// use(lane, offset from that of lane `first`, step) for the first lane of each piece in [first, end).
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION void for_pieces(Index first, Index end, Index depth, const Use& use) const {
    for (Index row = first; row < end; row += piece) use(row, offset(row, depth) - offset(first, depth), step(row));
  }
};

/// Panels of columns of b, all of about as many vectors, so that none has much less work for its loads than others.
struct PanelsOfColumns {
  static constexpr int piece = vector_width;
  Index vectors, panels;

  explicit PanelsOfColumns(Index columns)
      : vectors(ceil_div(columns, vector_width)), panels(ceil_div(vectors, most_vectors)) {}

  KOKKOS_FUNCTION Index first_vector(Index panel) const { return panel * vectors / panels; }
  KOKKOS_FUNCTION Index first_column(Index panel) const { return first_vector(panel) * vector_width; }
  KOKKOS_FUNCTION Index vectors_of(Index panel) const { return first_vector(panel + 1) - first_vector(panel); }
  KOKKOS_FUNCTION Index panel_of(Index column) const { return ((column / vector_width + 1) * panels - 1) / vectors; }
  KOKKOS_FUNCTION Index offset(Index column, Index depth) const {
    const Index first = first_column(panel_of(column));
    return first * depth + column - first;
  }
  KOKKOS_FUNCTION Index step(Index column) const { return vectors_of(panel_of(column)) * vector_width; }
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION void for_pieces(Index first, Index end, Index depth, const Use& use) const {
    Index panel = panel_of(first), column = first;
    for (Index past = first_column(panel); column < end;) {
      const Index begin = past;
      past = first_column(++panel);
      for (; column < past && column < end; column += piece)
        use(column, (begin - first) * depth + column - begin, past - begin);
    }
  }
};

#if !defined(__CUDACC__) && !defined(__HIPCC__) && defined(__GNUC__)
/// Swaps the blocks of `step` x `step` elements beside the diagonal, in each block of twice the size.
template <int step, int width, std::size_t... l>
KOKKOS_FORCEINLINE_FUNCTION void swap_blocks(Lanes<width> (&v)[width], std::index_sequence<l...>) {
  KEELSON_UNROLL
  for (int i = 0; i < width; ++i) {
    if (i & step) continue;
    const Lanes<width> a = v[i], b = v[i + step];
    v[i].part[0] = __builtin_shufflevector(a.part[0], b.part[0], ((l & step) ? width + l - step : l)...);
    v[i + step].part[0] = __builtin_shufflevector(a.part[0], b.part[0], ((l & step) ? width + l : l + step)...);
  }
}

/// Transposes a matrix of `width` vectors in registers.
template <int step = 1, int width>
KOKKOS_FORCEINLINE_FUNCTION void transpose_vectors(Lanes<width> (&v)[width]) {
  if constexpr (step < width) {
    swap_blocks<step>(v, std::make_index_sequence<width>());
    transpose_vectors<2 * step>(v);
  }
}

/// Writes the lanes first + l of v.
template <std::size_t first, int width, std::size_t... l>
KOKKOS_FORCEINLINE_FUNCTION void store_lanes(const Lanes<width>& v, float* to, std::index_sequence<l...>) {
  *reinterpret_cast<typename Lanes<sizeof...(l)>::Vector*>(to) =
      __builtin_shufflevector(v.part[0], v.part[0], (first + l)...);
}
#endif

/// Packs a part of a matrix. Lanes that fill up the last panel get any numbers: no result depends on them.
template <class Panels>
struct PanelPacker {
  static constexpr int piece = Panels::piece;
  const float* from;
  Index lane_step, step;  ///< element (lane, k) is from[lane * lane_step + k * step]
  Index lanes;
  Panels panels;

  /// Lanes [first, end), `depth` steps from `begin`. `first` begins a panel and a vector.
  KOKKOS_FUNCTION void pack(Index first, Index end, Index begin, Index depth, float* to) const {
    if (lane_step == 1) return pack_steps(first, end, begin, 0, depth, depth, to);
    for (Index lane = first; lane < end; lane += vector_width)
      pack_lanes(lane, begin, depth, to - panels.offset(first, depth));
  }

  /// Steps [k, k_end) of `depth`, if lanes are neighbours: all lanes of a few steps, then those of the next steps,
  /// which are far away.
  KOKKOS_FUNCTION void pack_steps(Index first, Index end, Index begin, Index k, Index k_end, Index depth,
                                  float* to) const {
    constexpr Index at_once = 4;
    for (; k < k_end; k += at_once) {
      const float* const line = from + (begin + k) * step;
      const Index count = k + at_once < k_end ? at_once : k_end - k,
                  ahead = k + 2 * at_once < depth ? at_once * step : 0;
      panels.for_pieces(first, end, depth, [&](Index lane, Index offset, Index panel_step) {
        float* const at = to + offset + k * panel_step;
        const Index left = lanes - lane;
        for (Index i = 0; i < count; ++i) {
          const float* const x = line + i * step + lane;
          prefetch<true>(x + ahead);
          if (left >= piece)
            copy_piece(x, at + i * panel_step);
          else
            for (Index l = 0; l < piece; ++l) at[i * panel_step + l] = l < left ? x[l] : 0.0f;
        }
      });
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION static void copy_piece(const float* x, float* to) {
    Lanes<piece> v;
    v.load(x);
    v.store(to);
  }

  /// A vector of lanes. to: of lane 0.
  KOKKOS_FUNCTION void pack_lanes(Index lane, Index begin, Index depth, float* to) const {
    const float* row[vector_width];
    for (int l = 0; l < vector_width; ++l)
      row[l] = from + (lane + l < lanes ? lane + l : lanes - 1) * lane_step + begin * step;
    Index k = 0;
    if constexpr (vector_width > 1)
      if (step == 1) k = pack_squares(row, lane, depth, to);
    const Index at_step = panels.step(lane);
    for (int l = 0; l < vector_width; l += piece) {
      float* const at = to + panels.offset(lane + l, depth);
      for (Index i = k; i < depth; ++i)
        for (int j = 0; j < piece; ++j) at[i * at_step + j] = row[l + j][i * step];
    }
  }

  /// As many steps as fill vectors; returns their number.
  template <int width = vector_width>
  KOKKOS_FUNCTION Index pack_squares(const float* const (&row)[width], Index lane, Index depth, float* to) const {
    Index k = 0;
    for (; k + width <= depth; k += width) {
      Lanes<width> v[width];
      KEELSON_UNROLL
      for (int l = 0; l < width; ++l) {
        v[l].load(row[l] + k);
        prefetch(row[l] + k + width * lane_step);
      }
      transpose_vectors(v);
      store_pieces(v, lane, k, depth, to, std::make_index_sequence<width / piece>());
    }
    return k;
  }
  template <int width, std::size_t... p>
  KOKKOS_FORCEINLINE_FUNCTION void store_pieces(const Lanes<width> (&v)[width], Index lane, Index k, Index depth,
                                                float* to, std::index_sequence<p...>) const {
    constexpr auto lanes_of_piece = std::make_index_sequence<piece>();
    float* const at[] = {to + panels.offset(lane + static_cast<Index>(p) * piece, depth)...};
    const Index at_step = panels.step(lane);
    KEELSON_UNROLL
    for (int i = 0; i < width; ++i) (store_lanes<p * piece>(v[i], at[p] + (k + i) * at_step, lanes_of_piece), ...);
  }
};

}  // namespace keelson::kokkos
