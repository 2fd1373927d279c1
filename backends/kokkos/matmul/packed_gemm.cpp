#include "backends/kokkos/matmul/packed_gemm.hpp"

#include <algorithm>

#include "backends/kokkos/common/caches.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "engine/base/memory_parts.hpp"

namespace keelson::kokkos {

namespace {

constexpr Index rows_at_once = rows_of_panel < vector_width ? vector_width : rows_of_panel;
constexpr Index round_up(Index n, Index to) { return ceil_div(n, to) * to; }

/// The product of a panel of rows and a panel of columns, added to c or written to c. a: (k, rows_of_panel), b: (k,
/// vectors).
template <int rows, int vectors>
KOKKOS_FORCEINLINE_FUNCTION void multiply_panels(const float* a, const float* b, Index depth, float* c, Index c_row,
                                                 bool adds) {
  constexpr int lanes = vectors * vector_width;
  constexpr Index floats_ahead = 512, steps_of_line = ceil_div(floats_of_line, rows_of_panel);
  Lanes<lanes> sums[rows];
  const float zero[lanes] = {};
  KEELSON_UNROLL
  for (int r = 0; r < rows; ++r) {
    sums[r].load(zero);
    KEELSON_UNROLL
    for (int l = 0; l < lanes; l += floats_of_line) prefetch_to_write(c + r * c_row + l);
  }
  const auto add = [&](Index k) {
    Lanes<lanes> x;
    x.load(b + k * lanes);
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) sums[r].add_scaled(a[k * rows_of_panel + r], x);
  };
  // Both pointers move: with an index in each address, the compiler computes some addresses in operations of their own.
  for (Index left = depth / steps_of_line; left > 0; --left) {
    prefetch<true>(a + floats_ahead);
    KEELSON_UNROLL
    for (Index i = 0; i < steps_of_line; ++i) add(i);
    a = in_register(a + steps_of_line * rows_of_panel);
    b = in_register(b + steps_of_line * lanes);
  }
  for (Index k = 0; k < depth % steps_of_line; ++k) add(k);
  KEELSON_UNROLL
  for (int r = 0; r < rows; ++r) {
    float* const to = c + r * c_row;
    if (adds) {
      Lanes<lanes> before;
      before.load(to);
      KEELSON_UNROLL
      for (int i = 0; i < vectors; ++i) sums[r].part[i] += before.part[i];
    }
    sums[r].store(to);
  }
}

/// A block of c and a block of depth, with the panels that they need.
struct BlockOfProduct {
  Index first_row, end_row, first_panel, end_panel;
  Index begin, depth;
  const float *a, *b;
};

/// What a worker multiplies: blocks of c, one after the other.
struct PackedGemmKernel {
  static constexpr int most_lanes = most_vectors * vector_width;
  PanelPacker<PanelsOfRows> a;
  PanelPacker<PanelsOfColumns> b;
  Index rows, columns, depth;
  Index rows_of_block, row_blocks, column_blocks, depth_of_block;
  const float *packed_a, *packed_b;  ///< all blocks of depth of the operand that is packed first; null for the other
  float* of_workers;
  Index floats_of_worker, workers;
  PackedGemm::Bias bias;
  EltwiseParams activation;
  float* c;
  Index c_row;

  KOKKOS_FUNCTION void operator()(Index worker) const {
    const Index blocks = row_blocks * column_blocks;
    float* const own = of_workers + worker * floats_of_worker;
    for (Index i = blocks * worker / workers; i < blocks * (worker + 1) / workers; ++i)
      block(i / column_blocks, i % column_blocks, own);
  }

  KOKKOS_FUNCTION void block(Index row_block, Index column_block, float* own) const {
    BlockOfProduct p{};
    p.first_row = row_block * rows_of_block;
    p.end_row = p.first_row + rows_of_block < rows ? p.first_row + rows_of_block : rows;
    p.first_panel = column_block * b.panels.panels / column_blocks;
    p.end_panel = (column_block + 1) * b.panels.panels / column_blocks;
    const Index first_column = b.panels.first_column(p.first_panel), past = b.panels.first_column(p.end_panel);
    for (p.begin = 0; p.begin < depth; p.begin += depth_of_block) {
      p.depth = p.begin + depth_of_block < depth ? depth_of_block : depth - p.begin;
      p.a = p.b = own;
      if (packed_a) {
        p.a = packed_a + round_up(rows, rows_at_once) * p.begin + p.first_row * p.depth;
        b.pack(first_column, past < columns ? past : columns, p.begin, p.depth, own);
      } else {
        p.b = packed_b + b.panels.vectors * vector_width * p.begin + first_column * p.depth;
        a.pack(p.first_row, p.end_row, p.begin, p.depth, own);
      }
      multiply_block(p);
    }
  }

  KOKKOS_FUNCTION void multiply_block(const BlockOfProduct& p) const {
    const bool last = p.begin + p.depth == depth && (bias.values || activation.kind != EltwiseKind::identity);
    const float* of_b = p.b;
    for (Index panel = p.first_panel; panel < p.end_panel; ++panel) {
      const Index column = b.panels.first_column(panel), vectors = b.panels.vectors_of(panel);
      const Index used = columns - column < vectors * vector_width ? columns - column : vectors * vector_width;
      for (Index row = p.first_row; row < p.end_row; row += rows_of_panel) {
        const Index count = p.end_row - row < rows_of_panel ? p.end_row - row : rows_of_panel;
        const float* const of_a = p.a + (row - p.first_row) * p.depth;
        float* const to = c + row * c_row + column;
        if (used == vectors * vector_width)
          multiply<rows_of_panel>(count, vectors, of_a, of_b, p.depth, to, c_row, p.begin > 0);
        else
          multiply_copy(count, used, of_a, of_b, p, to);
        if (last) finish(row, count, column, used);
      }
      of_b += vectors * vector_width * p.depth;
    }
  }

  /// The last panel has columns that c does not have.
  KOKKOS_FUNCTION void multiply_copy(Index count, Index used, const float* of_a, const float* of_b,
                                     const BlockOfProduct& p, float* to) const {
    float copy[rows_of_panel * most_lanes];
    if (p.begin > 0)
      for (Index r = 0; r < count; ++r)
        for (Index l = 0; l < used; ++l) copy[r * most_lanes + l] = to[r * c_row + l];
    multiply<rows_of_panel>(count, ceil_div(used, vector_width), of_a, of_b, p.depth, copy, most_lanes, p.begin > 0);
    for (Index r = 0; r < count; ++r)
      for (Index l = 0; l < used; ++l) to[r * c_row + l] = copy[r * most_lanes + l];
  }

  KOKKOS_FUNCTION void finish(Index row, Index count, Index column, Index used) const {
    for (Index r = row; r < row + count; ++r) {
      float x[most_lanes] = {};
      float* const to = c + r * c_row + column;
      for (Index l = 0; l < used; ++l) x[l] = to[l];
      if (bias.values)
        for (Index l = 0; l < used; ++l) x[l] += bias.values[r * bias.stride.row + (column + l) * bias.stride.column];
      activate(activation, x);
      for (Index l = 0; l < used; ++l) to[l] = x[l];
    }
  }

  template <int most>
  KOKKOS_FUNCTION static void multiply(Index tile_rows, Index vectors, const float* a, const float* b, Index count,
                                       float* c, Index c_row, bool adds) {
    if constexpr (most > 1)
      if (tile_rows < most) return multiply<most - 1>(tile_rows, vectors, a, b, count, c, c_row, adds);
    if (vectors == 3) return multiply_panels<most, 3>(a, b, count, c, c_row, adds);
    if (vectors == 2) return multiply_panels<most, 2>(a, b, count, c, c_row, adds);
    multiply_panels<most, 1>(a, b, count, c, c_row, adds);
  }
};

/// Packs all of an operand: an item is a run of steps or a vector of lanes of a block of depth.
template <class Panels>
struct PackAll {
  static constexpr Index run = 16;
  PanelPacker<Panels> packer;
  Index padded_lanes, depth, depth_of_block;
  float* to;

  Index items() const {
    const Index of_block =
        packer.lane_step == 1 ? ceil_div(depth_of_block, run) : ceil_div(packer.lanes, Index{vector_width});
    return ceil_div(depth, depth_of_block) * of_block;
  }
  KOKKOS_FUNCTION void operator()(Index item) const {
    const bool steps = packer.lane_step == 1;
    const Index of_block = steps ? ceil_div(depth_of_block, run) : ceil_div(packer.lanes, Index{vector_width});
    const Index begin = item / of_block * depth_of_block, i = item % of_block;
    const Index count = begin + depth_of_block < depth ? depth_of_block : depth - begin;
    float* const block = to + padded_lanes * begin;
    if (!steps) return packer.pack_lanes(i * vector_width, begin, count, block);
    const Index end = i * run + run < count ? i * run + run : count;
    packer.pack_steps(0, packer.lanes, begin, i * run, end, count, block);
  }
};

}  // namespace

bool PackedGemm::suits(Index rows, Index columns, Index depth, MatrixStrides c) {
  constexpr double least_products = 1 << 20;
  // Up to max_lanes columns are one panel, which would use the packed part of a once.
  return runs_on_host && vector_width > 1 && c.column == 1 && rows >= 4 * rows_of_panel && columns > max_lanes &&
         depth >= 16 &&
         static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth) >= least_products;
}

PackedGemm::PackedGemm(Index rows, Index columns, Index depth, MatrixStrides a, MatrixStrides b, MatrixStrides c)
    : rows_(rows),
      columns_(columns),
      depth_(depth),
      a_(a),
      b_(b),
      c_(c),
      panels_(columns),
      workers_(space().concurrency()),
      keeps_a_(rows <= columns) {
  constexpr Index bytes = sizeof(float), lanes = most_vectors * vector_width, panels_of_block = 4, most_columns = 1024,
                  least_rows = 192, rows_for_packing = 2048;
  const Index most_depth = std::clamp<Index>(first_cache_bytes() * 3 / 4 / (lanes * bytes) / 16 * 16, 64, 512);
  depth_of_block_ = round_up(ceil_div(depth, ceil_div(depth, most_depth)), vector_width);
  // The packed rows of a block stay in half of the second cache level, or in a quarter if a worker packs them itself.
  // All blocks are about equal. If the rows are packed first, each block of them packs the columns again: then a block
  // has many rows, even if they come from the third cache level.
  const Index wanted_columns = keeps_a_ ? panels_of_block * lanes : std::min(columns, most_columns);
  const Index fit = keeps_a_ ? std::max(second_cache_bytes() / 2 / bytes / depth_of_block_, rows_for_packing)
                             : second_cache_bytes() / 4 / bytes / depth_of_block_;
  Index row_blocks = ceil_div(rows, std::max(fit, 4 * rows_at_once));
  column_blocks_ = ceil_div(columns, wanted_columns);
  if (keeps_a_) column_blocks_ = std::min(round_up(column_blocks_, workers_), panels_.panels);
  // Few panels of columns cannot be divided equally; then the workers share the rows.
  const bool uneven = round_up(panels_.panels, workers_) * 16 > panels_.panels * 17;
  if (!keeps_a_ || (uneven && rows >= workers_ * least_rows)) row_blocks = round_up(row_blocks, workers_);
  rows_of_block_ = round_up(ceil_div(rows, row_blocks), rows_at_once);
  row_blocks_ = ceil_div(rows, rows_of_block_);
  workers_ = std::min(workers_, row_blocks_ * column_blocks_);
}

struct PackedGemm::Scratch {
  float *whole, *of_workers;
  Index floats_of_worker;
  std::size_t bytes;
};

PackedGemm::Scratch PackedGemm::divide(void* scratch) const {
  constexpr Index widest = 2 * most_vectors * vector_width;
  const Index whole_a = round_up(rows_, rows_at_once) * depth_, whole_b = panels_.vectors * vector_width * depth_;
  const Index columns_of_block = columns_ / column_blocks_ + widest;
  const Index part = (keeps_a_ ? columns_of_block : rows_of_block_) * depth_of_block_;
  MemoryParts parts(scratch);
  Scratch s{};
  s.whole = parts.take<float>(keeps_a_ ? whole_a : whole_b);
  s.floats_of_worker = round_up(part, 16);
  s.of_workers = parts.take<float>(workers_ * s.floats_of_worker);
  s.bytes = parts.used();
  return s;
}

std::size_t PackedGemm::scratch_bytes() const { return divide(nullptr).bytes; }

std::string PackedGemm::name() const {
  return fmt::format("packed_gemm:{}x{}", rows_of_panel, most_vectors * vector_width);
}

void PackedGemm::run(const char* label, const float* a, const float* b, const Bias& bias,
                     const ops::EltwiseParams& activation, float* c, void* scratch) const {
  if constexpr (runs_on_host && vector_width > 1) {
    constexpr const char* pack_label = "keelson::packed_gemm::pack";
    const Scratch s = divide(scratch);
    const PanelPacker<PanelsOfRows> pack_a{a, a_.row, a_.column, rows_, {}};
    const PanelPacker<PanelsOfColumns> pack_b{b, b_.column, b_.row, columns_, panels_};
    const auto pack = [&](const auto& packer, Index padded) {
      const PackAll all{packer, padded, depth_, depth_of_block_, s.whole};
      launch(pack_label, all.items(), all);
    };
    if (keeps_a_)
      pack(pack_a, round_up(rows_, rows_at_once));
    else
      pack(pack_b, panels_.vectors * vector_width);
    launch(label, workers_,
           PackedGemmKernel{pack_a, pack_b, rows_, columns_, depth_, rows_of_block_, row_blocks_, column_blocks_,
                            depth_of_block_, keeps_a_ ? s.whole : nullptr, keeps_a_ ? nullptr : s.whole, s.of_workers,
                            s.floats_of_worker, workers_, bias, activation, c, c_.row});
  }
}

}  // namespace keelson::kokkos
