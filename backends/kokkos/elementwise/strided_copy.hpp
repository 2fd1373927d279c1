#pragma once

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/values.hpp"

/// dst = src for arrays of one shape with any strides: all of Reorder and Concat.
namespace keelson::kokkos {

/// The parameters of the copy, computed once. `row` is the dim that is fastest in dst; `column` is the dim that is
/// fastest in src, if this is another dim. A CPU copies these two dims as tiles through L1, and the other dims number
/// the tiles.
struct CopyPlan {
  struct Dim {
    Index extent = 1, src = 0, dst = 0;
    Divider by_extent{};  ///< for numbers of elements
  };
  Dim row, column;
  int outer_rank = 0;
  Dim outer[max_rank];
  Index outer_count = 1, row_tile = 1, column_tile = 1;

  Index items() const { return outer_count * ceil_div(row.extent, row_tile) * ceil_div(column.extent, column_tile); }
};

CopyPlan plan_copy(const Shape& shape, const Layout& src, const Layout& dst);

namespace detail {

/// Conversion f32 <-> bf16, f16; other types (f32 <-> f64) as in C++; equal types bit for bit.
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

inline constexpr int copy_tile = 32;

/// For a CPU.
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

  /// Copies through a buffer, so that both sides access runs. Single elements with strides that are powers of two would
  /// map to one cache set.
  KOKKOS_FUNCTION void transpose(const From* from, To* to, Index rows, Index columns) const {
    To tile[copy_tile][copy_tile + 1];
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < columns; ++c) tile[r][c] = converted<To>(from[r * p.row.src + c * p.column.src]);
    for (Index c = 0; c < columns; ++c)
      for (Index r = 0; r < rows; ++r) to[r * p.row.dst + c * p.column.dst] = tile[r][c];
  }
};

/// For a GPU: an item moves `width` neighbours of a row as one pack, or the rest of the row; one element if the width
/// is 1.
template <class From, class To, int width>
struct CopyNeighbours {
  CopyPlan p;
  Divider by_packs;  ///< packs of a row
  const From* src;
  To* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index begin = by_packs.split(item) * width;
    const Index column = p.column.by_extent.split(item);
    const From* from = src + begin * p.row.src + column * p.column.src;
    To* to = dst + begin * p.row.dst + column * p.column.dst;
    for (int i = p.outer_rank - 1; i >= 0; --i) {
      const Index at = p.outer[i].by_extent.split(item);
      from += at * p.outer[i].src;
      to += at * p.outer[i].dst;
    }
    if constexpr (width == 1)
      *to = converted<To>(*from);
    else if (begin + width <= p.row.extent)
      whole(from, to);
    else
      for (Index i = 0; i < p.row.extent - begin; ++i) to[i] = converted<To>(from[i]);
  }

  KOKKOS_FUNCTION static void whole(const From* from, To* to) {
    const auto pack = *reinterpret_cast<const Pack<From, width>*>(from);
    Pack<To, width> result;
    for (int i = 0; i < width; ++i) result.x[i] = converted<To>(pack.x[i]);
    *reinterpret_cast<Pack<To, width>*>(to) = result;
  }
};

/// Whether rows are contiguous on both sides, long enough for packs, and aligned for them.
template <int width, class From, class To>
bool takes_packs(const CopyPlan& p, const From* src, const To* dst) {
  bool takes = p.row.src == 1 && p.row.dst == 1 && p.column.extent == 1 && p.row.extent >= width &&
               aligned(src, alignof(Pack<From, width>)) && aligned(dst, alignof(Pack<To, width>));
  for (int i = 0; i < p.outer_rank; ++i) takes = takes && p.outer[i].src % width == 0 && p.outer[i].dst % width == 0;
  return takes;
}

template <int width, class From, class To>
void copy_neighbours(const char* label, const CopyPlan& p, const From* src, To* dst) {
  const Index packs = ceil_div(p.row.extent, width), items = p.outer_count * p.column.extent * packs;
  launch(label, items, CopyNeighbours<From, To, width>{p, Divider(packs, items), src, dst});
}

}  // namespace detail

template <class From, class To>
void copy_strided(const char* label, const CopyPlan& plan, const From* src, To* dst) {
  if constexpr (runs_on_host) {
    launch(label, plan.items(), detail::CopyTile<From, To>{plan, src, dst});
  } else {
    // A pack of the smaller type has 16 bytes.
    constexpr int width = 16 / static_cast<int>(sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
    if (detail::takes_packs<width>(plan, src, dst))
      detail::copy_neighbours<width>(label, plan, src, dst);
    else
      detail::copy_neighbours<1>(label, plan, src, dst);
  }
}

}  // namespace keelson::kokkos
