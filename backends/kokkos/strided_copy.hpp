#pragma once

#include <array>
#include <vector>

#include "backends/kokkos/values.hpp"

/// dst = src for arrays of one shape with any strides: the whole of Reorder and Concat.
namespace keelson::kokkos {

/// The copy as the kernel wants it, worked out once: the two dims that are fastest in dst (`row`) and in src (`column`)
/// are moved as square tiles through registers or L1, the others enumerate the tiles.
struct CopyPlan {
  struct Dim {
    Index extent = 1, src = 0, dst = 0;
  };
  Dim row, column;
  int outer_rank = 0;
  Dim outer[max_rank];
  Index outer_count = 1, row_tile = 1, column_tile = 1;

  Index items() const { return outer_count * ceil_div(row.extent, row_tile) * ceil_div(column.extent, column_tile); }
};

CopyPlan plan_copy(const Shape& shape, const Layout& src, const Layout& dst);

namespace detail {

/// f32 <-> bf16, f16; others, as f32 <-> f64, as the language converts them; equal types bit for bit.
template <class To, class From>
KOKKOS_FORCEINLINE_FUNCTION To converted(From x) {
  constexpr bool low = sizeof(To) == 2 || sizeof(From) == 2;
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (low)
    return stored<To>(value_of(x));
  else
    return static_cast<To>(x);
}

inline constexpr int copy_tile = runs_on_host ? 32 : 1;

template <class From, class To>
struct CopyTile {
  CopyPlan p;
  const From* src;
  To* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index row_tiles = ceil_div(p.row.extent, p.row_tile), column_tiles = ceil_div(p.column.extent, p.column_tile);
    const Index row_begin = item % row_tiles * p.row_tile;
    item /= row_tiles;
    const Index column_begin = item % column_tiles * p.column_tile;
    item /= column_tiles;
    const From* from = src + row_begin * p.row.src + column_begin * p.column.src;
    To* to = dst + row_begin * p.row.dst + column_begin * p.column.dst;
    for (int i = p.outer_rank - 1; i >= 0; --i) {
      from += item % p.outer[i].extent * p.outer[i].src;
      to += item % p.outer[i].extent * p.outer[i].dst;
      item /= p.outer[i].extent;
    }
    const Index rows = row_begin + p.row_tile < p.row.extent ? p.row_tile : p.row.extent - row_begin;
    const Index columns =
        column_begin + p.column_tile < p.column.extent ? p.column_tile : p.column.extent - column_begin;
    if (p.column.extent == 1)
      run(from, to, rows);
    else
      transpose(from, to, rows, columns);
  }

  KOKKOS_FUNCTION void run(const From* from, To* to, Index n) const {
    if (p.row.src == 1 && p.row.dst == 1) {
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index i = 0; i < n; ++i) to[i] = converted<To>(from[i]);
    } else {
      for (Index i = 0; i < n; ++i) to[i * p.row.dst] = converted<To>(from[i * p.row.src]);
    }
  }

  /// Through a buffer, so that both sides see runs: with strides that are powers of two, single elements would fall on
  /// one cache set.
  KOKKOS_FUNCTION void transpose(const From* from, To* to, Index rows, Index columns) const {
    To tile[copy_tile][copy_tile + 1];
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < columns; ++c) tile[r][c] = converted<To>(from[r * p.row.src + c * p.column.src]);
    for (Index c = 0; c < columns; ++c)
      for (Index r = 0; r < rows; ++r) to[r * p.row.dst + c * p.column.dst] = tile[r][c];
  }
};

}  // namespace detail

template <class From, class To>
void copy_strided(const char* label, const CopyPlan& plan, const From* src, To* dst) {
  launch(label, plan.items(), detail::CopyTile<From, To>{plan, src, dst});
}

}  // namespace keelson::kokkos
