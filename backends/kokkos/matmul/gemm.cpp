#include "backends/kokkos/matmul/gemm.hpp"

#include <algorithm>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "backends/kokkos/matmul/gemm_library.hpp"

namespace keelson::kokkos {

namespace {

struct GemmKernel {
  const float* a;
  Index a_row, a_step;
  const float* b;
  Index b_panel, b_step;
  Index rows, columns, panels, depth, splits, depth_of_split;
  const float* bias;
  Index bias_row, bias_column;
  EltwiseParams activation;
  float* c;
  Index c_row, c_column;
  float* partial;  ///< (split, row, panel, lane); null if there is only one split
};

template <int lanes>
KOKKOS_INLINE_FUNCTION void finish(const GemmKernel& g, Index row, Index panel, float (&x)[lanes]) {
  const Index left = g.columns - panel * lanes;
  const int count = static_cast<int>(left < lanes ? left : lanes);
  if (g.bias)
    for (int l = 0; l < count; ++l) x[l] += g.bias[row * g.bias_row + (panel * lanes + l) * g.bias_column];
  activate(g.activation, x);
  float* to = g.c + row * g.c_row + panel * lanes * g.c_column;
  for (int l = 0; l < count; ++l) to[l * g.c_column] = x[l];
}

template <int lanes>
struct GemmTile {
  GemmKernel g;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index tiles = ceil_div(g.rows, tile_rows), first = item % tiles * tile_rows;
    item /= tiles;
    const Index panel = item % g.panels, split = item / g.panels;
    const Index valid = first + tile_rows < g.rows ? tile_rows : g.rows - first;
    Index row[tile_rows];
    for (int r = 0; r < tile_rows; ++r) row[r] = (first + (r < valid ? r : valid - 1)) * g.a_row;
    Lanes<lanes> acc[tile_rows];
    const float zero[lanes] = {};
    for (int r = 0; r < tile_rows; ++r) acc[r].load(zero);

    const Index begin = split * g.depth_of_split;
    const Index count = begin + g.depth_of_split < g.depth ? g.depth_of_split : g.depth - begin;
    const float *a = g.a + begin * g.a_step, *b = g.b + panel * g.b_panel + begin * g.b_step;
    constexpr Index part = runs_on_host ? floats_of_line : INT32_MAX;
    for (Index k = 0; k < count; k += part) {
      prefetch_after(a + k * g.a_step, row, b + k * g.b_step);
      multiply(acc, a + k * g.a_step, row, g.a_step, b + k * g.b_step, g.b_step, part < count - k ? part : count - k);
    }

    for (int r = 0; r < valid; ++r) {
      if (g.partial) {
        acc[r].store(g.partial + ((split * g.rows + first + r) * g.panels + panel) * lanes);
      } else {
        float x[lanes];
        acc[r].store(x);
        finish(g, first + r, panel, x);
      }
    }
  }

  /// What comes after a line of floats of `depth`, and the processor does not see coming: the rows of the next item,
  /// and pieces of rows of b.
  KOKKOS_FORCEINLINE_FUNCTION void prefetch_after(const float* a, const Index (&row)[tile_rows], const float* b) const {
    if constexpr (!runs_on_host) return;
    if (g.a_step == 1)
      for (int r = 0; r < tile_rows; ++r) prefetch<true>(a + tile_rows * g.a_row + row[r]);
    if (g.b_step > lanes)
      for (Index k = floats_of_line; k < 2 * floats_of_line; ++k)
        for (int l = 0; l < lanes; l += floats_of_line) prefetch<true>(b + k * g.b_step + l);
  }
};

template <int lanes>
struct AddGemmSplits {
  GemmKernel g;
  KOKKOS_FUNCTION void operator()(Index item) const {
    float x[lanes] = {};
    for (Index s = 0; s < g.splits; ++s) {
      const float* p = g.partial + (s * g.rows * g.panels + item) * lanes;
      for (int l = 0; l < lanes; ++l) x[l] += p[l];
    }
    finish(g, item / g.panels, item % g.panels, x);
  }
};

/// (panel, depth, lane), with zeros after the last column.
struct FillGemmPanels {
  const float* b;
  MatrixStrides stride;
  Index columns, depth, lanes;
  float* panels;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index k = item % depth, first = item / depth * lanes;
    const float* from = b + k * stride.row + first * stride.column;
    float* to = panels + item * lanes;
    for (Index l = 0; l < lanes; ++l) to[l] = first + l < columns ? from[l * stride.column] : 0.0f;
  }
};

/// c = activation(c + bias), after the library's product.
struct Epilogue {
  const float* bias;
  EltwiseParams activation;
  Index columns;
  MatrixStrides stride;
  float* c;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index column = i % columns;
    float* at = c + i / columns * stride.row + column * stride.column;
    float x[1] = {*at + (bias ? bias[column] : 0.0f)};
    activate(activation, x);
    *at = x[0];
  }
};

bool needs_copy(Index columns, MatrixStrides b) { return b.column != 1 || columns % lanes_for(columns) != 0; }

/// Elements moved in addition to the product itself: panels of b read and written, columns of c written one by one.
Index overhead(Index rows, Index columns, Index depth, MatrixStrides b, MatrixStrides c, Index uses = 1) {
  return (needs_copy(columns, b) ? 2 * columns * depth / uses : 0) +
         (c.column != 1 && columns > 1 ? rows * columns : 0);
}

/// Few tiles: the reduction is split into parts, whose number does not depend on the number of threads. The part of b
/// that tiles of other rows read again stays in the second cache level.
Index parts_of_reduction(Index rows, Index columns, Index depth) {
  constexpr Index enough_items = 64, least_depth = 256, most_floats = Index{1} << 17;
  const Index tiles = ceil_div(rows, tile_rows), items = tiles * ceil_div(columns, lanes_for(columns));
  Index parts = ceil_div(enough_items, std::max<Index>(items, 1));
  if (parts > 1 && tiles > 1) parts = std::max(parts, depth * lanes_for(columns) / most_floats);
  return std::clamp(parts, Index{1}, std::max<Index>(1, depth / least_depth));
}

/// Whether packed_gemm.hpp computes the product, or its transpose if the columns of c are not neighbours.
bool packs(Index rows, Index columns, Index depth, MatrixStrides c, Index uses) {
  if (c.column != 1) return c.row == 1 && packs(columns, rows, depth, c.transposed(), uses);
  return uses == 1 && parts_of_reduction(rows, columns, depth) == 1 && PackedGemm::suits(rows, columns, depth, c);
}

bool better_transposed(Index rows, Index columns, Index depth, MatrixStrides a, MatrixStrides b, MatrixStrides c,
                       Index uses) {
  if (packs(rows, columns, depth, c, uses)) return c.column != 1;
  return overhead(columns, rows, depth, a.transposed(), c.transposed()) < overhead(rows, columns, depth, b, c, uses);
}

}  // namespace

Gemm::Gemm(Index rows, Index columns, Index depth, MatrixStrides a, MatrixStrides b, MatrixStrides c, Index uses)
    : swapped_(better_transposed(rows, columns, depth, a, b, c, uses)),
      rows_(swapped_ ? columns : rows),
      columns_(swapped_ ? rows : columns),
      depth_(depth),
      a_(swapped_ ? b.transposed() : a),
      b_(swapped_ ? a.transposed() : b),
      c_(swapped_ ? c.transposed() : c),
      lanes_(lanes_for(columns_)),
      panels_(ceil_div(columns_, lanes_)),
      copy_(needs_copy(columns_, b_)),
      keep_(copy_ && !swapped_ && uses > 1) {
  LibraryMatrix ma, mb, mc;
  library_ = depth > 0 && library_matrix(rows, columns, c, mc) && library_matrix(rows, depth, a, ma) &&
             library_matrix(depth, columns, b, mb);
  const Index parts = parts_of_reduction(rows_, columns_, depth_);
  depth_of_split_ = std::max<Index>(1, ceil_div(depth_, parts));
  splits_ = std::max<Index>(1, ceil_div(depth_, depth_of_split_));
  if (!library_ && packs(rows_, columns_, depth_, c_, uses)) packed_.emplace(rows_, columns_, depth_, a_, b_, c_);
}

std::size_t Gemm::scratch_bytes() const {
  if (library_) return 0;
  if (packed_) return packed_->scratch_bytes();
  const Index panels = copy_ && !keep_ ? panels_ * depth_ * lanes_ : 0;
  const Index sums = splits_ > 1 ? splits_ * rows_ * panels_ * lanes_ : 0;
  return align64(static_cast<std::size_t>(panels) * sizeof(float)) +
         align64(static_cast<std::size_t>(sums) * sizeof(float));
}

std::string Gemm::name() const {
  if (packed_) return packed_->name();
  return library_ ? "kokkos_kernels:gemm" : fmt::format("gemm:{}x{}", tile_rows, lanes_);
}

std::size_t Gemm::packed_bytes() const {
  return keep_ && !library_ ? align64(static_cast<std::size_t>(panels_ * depth_ * lanes_) * sizeof(float)) : 0;
}

void Gemm::pack(const float* b, float* packed) const {
  launch("keelson::gemm::fill_panels", panels_ * depth_, FillGemmPanels{b, b_, columns_, depth_, lanes_, packed});
}

void Gemm::run(const char* label, const float* a, const float* b, const float* bias,
               const ops::EltwiseParams& activation, float* c, float* scratch, const float* packed) const {
  constexpr const char* add_label = "keelson::gemm::add_splits";
  if (library_) return run_library(a, b, bias, activation, c);
  if (swapped_) std::swap(a, b);
  if (packed_)
    return packed_->run(label, a, b, {bias, swapped_ ? MatrixStrides{1, 0} : MatrixStrides{0, 1}}, activation, c,
                        scratch);
  GemmKernel g{};
  g.a = a, g.a_row = a_.row, g.a_step = a_.column;
  g.b = b, g.b_panel = lanes_, g.b_step = b_.row;
  g.rows = rows_, g.columns = columns_, g.panels = panels_, g.depth = depth_;
  g.splits = splits_, g.depth_of_split = depth_of_split_;
  g.bias = bias, g.bias_row = swapped_ ? 1 : 0, g.bias_column = swapped_ ? 0 : 1;
  g.activation = activation;
  g.c = c, g.c_row = c_.row, g.c_column = c_.column;
  std::size_t used = 0;
  if (copy_) {
    if (!packed) {
      pack(b, scratch);
      used = align64(static_cast<std::size_t>(panels_ * depth_ * lanes_) * sizeof(float)) / sizeof(float);
    }
    g.b = packed ? packed : scratch, g.b_panel = depth_ * lanes_, g.b_step = lanes_;
  }
  if (splits_ > 1) g.partial = scratch + used;
  with_lanes(columns_, [&](auto lanes) {
    launch(label, splits_ * panels_ * ceil_div(rows_, tile_rows), GemmTile<lanes.value>{g});
    if (splits_ > 1) launch(add_label, rows_ * panels_, AddGemmSplits<lanes.value>{g});
  });
}

void Gemm::run_library(const float* a, const float* b, const float* bias, const ops::EltwiseParams& activation,
                       float* c) const {
  // The members describe the transpose if it suited our own kernel better.
  const Index rows = swapped_ ? columns_ : rows_, columns = swapped_ ? rows_ : columns_;
  const auto sa = swapped_ ? b_.transposed() : a_, sb = swapped_ ? a_.transposed() : b_;
  const auto sc = swapped_ ? c_.transposed() : c_;
  LibraryMatrix ma, mb, mc;
  library_matrix(rows, depth_, sa, ma);
  library_matrix(depth_, columns, sb, mb);
  library_matrix(rows, columns, sc, mc);
  library_gemm(ma, a, mb, b, mc, c);
  if (bias || activation.kind != ops::EltwiseKind::identity)
    launch("keelson::gemm::epilogue", rows * columns, Epilogue{bias, activation, columns, sc, c});
}

}  // namespace keelson::kokkos
