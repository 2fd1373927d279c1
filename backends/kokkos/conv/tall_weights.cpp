#include "backends/kokkos/conv/tall_weights.hpp"

#include <algorithm>

#include "backends/kokkos/common/tile.hpp"

namespace keelson::kokkos {

namespace {

/// Sums that fill the registers. The rows divide channels, 16 and more, with few empty rows.
constexpr bool has_many_registers = vector_width == 16;
constexpr int tile_lanes = has_many_registers ? vector_width : max_lanes;
constexpr int least_tile_rows = has_many_registers ? 13 : 5, most_tile_rows = has_many_registers ? 24 : 6;

/// Elements of src of one channel in a block: with two panels of as many vectors of diff_dst they fit into first-level
/// caches of 48 KiB.
constexpr Index most_positions = 176;

/// All elements of a channel as one line.
Volume as_line(Volume v) {
  v.extent[2] *= v.n * v.extent[0] * v.extent[1];
  v.n = v.extent[0] = v.extent[1] = 1;
  return v;
}

ConvGeometry joined(ConvGeometry g) {
  bool pointwise = true;
  for (int d = 0; d < 3; ++d)
    pointwise =
        pointwise && g.kernel[d] == 1 && g.stride[d] == 1 && g.pad[d] == 0 && g.src.extent[d] == g.dst.extent[d];
  if (pointwise) g.src = as_line(g.src), g.dst = as_line(g.dst);
  return g;
}

Index lines_of(const Volume& v) { return v.n * v.extent[0] * v.extent[1]; }

/// Packs diff_dst as (panel, position, lane), with zeros after the last channel. An item packs a run of positions.
struct PackTallDiff {
  static constexpr Index run = 16;
  const float* diff;
  Index positions, channels, panels;
  float* packed;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index begin = item * run, end = begin + run < positions ? begin + run : positions;
    for (Index panel = 0; panel < panels; ++panel)
      for (Index i = begin; i < end; ++i) {
        const float* const from = diff + i * channels + panel * tile_lanes;
        float* const to = packed + (panel * positions + i) * tile_lanes;
        const Index left = channels - panel * tile_lanes;
        if (left >= tile_lanes) {
          Lanes<tile_lanes> x;
          x.load(from);
          x.store(to);
        } else {
          for (Index l = 0; l < tile_lanes; ++l) to[l] = l < left ? from[l] : 0.0f;
        }
      }
  }
};

/// A part of src: lines, and of each line the columns w = x stride + residue for x in [begin, end) and all residues. In
/// the block, the columns of one residue are neighbours, so that they are for each tap.
struct SrcBlock {
  Index first_line, lines, begin, end;
};

struct SrcBlocks {
  Index all_lines, columns;  ///< columns of one residue
  Index lines, length;       ///< of a block

  SrcBlocks(const Volume& src, Index stride) : all_lines(lines_of(src)), columns(ceil_div(src.extent[2], stride)) {
    length = ceil_div(columns, ceil_div(columns, most_positions / stride));
    lines = length < columns ? 1 : std::min(most_positions / (columns * stride), all_lines);
  }
  KOKKOS_FUNCTION Index per_line() const { return ceil_div(columns, length); }
  KOKKOS_FUNCTION Index count() const { return ceil_div(all_lines, lines) * per_line(); }
  KOKKOS_FUNCTION SrcBlock at(Index i) const {
    const Index line = i / per_line() * lines, begin = i % per_line() * length;
    return {line, line + lines < all_lines ? lines : all_lines - line, begin,
            begin + length < columns ? begin + length : columns};
  }
};

/// A unit of work is a tile of input channels and a group of panels. An item computes a run of units, block by block of
/// src, so that the part of diff_dst that a block needs stays in the second cache level.
template <int rows>
struct TallWeightsKernel {
  static constexpr Index tile_size = rows * tile_lanes;
  const float* src;
  ConvGeometry g;
  SrcBlocks blocks;
  Index panels, panels_of_unit;
  const float* diff;  ///< of PackTallDiff
  float* sums;        ///< (tile, tap, panel, row, lane)

  KOKKOS_FUNCTION Index units_of_tile() const { return ceil_div(panels, panels_of_unit); }

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    float packed[most_positions * rows];
    for (Index i = 0; i < blocks.count(); ++i) {
      const SrcBlock block = blocks.at(i);
      for (Index unit = begin; unit < end; ++unit) {
        const Index tile = unit / units_of_tile(), first_panel = unit % units_of_tile() * panels_of_unit;
        const Index end_panel = first_panel + panels_of_unit < panels ? first_panel + panels_of_unit : panels;
        if (i == 0) clear(tile, first_panel, end_panel);
        if (unit == begin || first_panel == 0) pack(block, tile, packed);
        add_taps(block, tile, first_panel, end_panel, packed);
      }
    }
  }

  KOKKOS_FUNCTION float* sums_of(Index tile, Index tap, Index panel) const {
    return sums + ((tile * g.taps + tap) * panels + panel) * tile_size;
  }

  KOKKOS_FUNCTION void clear(Index tile, Index first_panel, Index end_panel) const {
    for (Index tap = 0; tap < g.taps; ++tap) {
      float* const end = sums_of(tile, tap, end_panel);
      for (float* x = sums_of(tile, tap, first_panel); x < end; ++x) *x = 0;
    }
  }

  /// (line, residue, column, channel). The last tile begins where it ends with the last channel.
  KOKKOS_FUNCTION void pack(const SrcBlock& block, Index tile, float* packed) const {
    const Index stride = g.stride[2], channel = tile * rows + rows < g.ci ? tile * rows : g.ci - rows;
    const Index line_step = g.src.extent[2] * g.src.c;
    const float* line = src + block.first_line * line_step + channel;
    for (Index l = 0; l < block.lines; ++l, line += line_step)
      for (Index residue = 0; residue < stride; ++residue)
        for (Index x = block.begin; x < block.end; ++x, packed += rows) {
          const Index w = x * stride + residue;
          if (w >= g.src.extent[2]) continue;
          for (int r = 0; r < rows; ++r) packed[r] = line[w * g.src.c + r];
        }
  }

  /// The line of dst for which a tap reads `line` of src, or -1.
  KOKKOS_FUNCTION Index line_of_dst(Index line, Index tap_d, Index tap_h) const {
    const Index h = line % g.src.extent[1] + g.pad[1] - tap_h * g.dilation[1];
    line /= g.src.extent[1];
    const Index d = line % g.src.extent[0] + g.pad[0] - tap_d * g.dilation[0], n = line / g.src.extent[0];
    if (h < 0 || d < 0 || h % g.stride[1] != 0 || d % g.stride[0] != 0) return -1;
    const Index to_h = h / g.stride[1], to_d = d / g.stride[0];
    if (to_h >= g.dst.extent[1] || to_d >= g.dst.extent[0]) return -1;
    return (n * g.dst.extent[0] + to_d) * g.dst.extent[1] + to_h;
  }

  KOKKOS_FUNCTION void add_taps(const SrcBlock& block, Index tile, Index first_panel, Index end_panel,
                                const float* packed) const {
    Index to_line[most_positions];
    Index tap = 0;
    for (Index tap_d = 0; tap_d < g.kernel[0]; ++tap_d)
      for (Index tap_h = 0; tap_h < g.kernel[1]; ++tap_h) {
        bool any = false;
        for (Index l = 0; l < block.lines; ++l) {
          to_line[l] = line_of_dst(block.first_line + l, tap_d, tap_h);
          any = any || to_line[l] >= 0;
        }
        for (Index tap_w = 0; tap_w < g.kernel[2]; ++tap_w, ++tap)
          if (any) add_tap(block, to_line, tap_w, sums_of(tile, tap, 0), first_panel, end_panel, packed);
      }
  }

  KOKKOS_FUNCTION void add_tap(const SrcBlock& block, const Index* to_line, Index tap_w, float* to, Index first_panel,
                               Index end_panel, const float* packed) const {
    // Column w of dst reads column w stride + shift of src, which is number w + quotient of its residue.
    const Index stride = g.stride[2], shift = tap_w * g.dilation[2] - g.pad[2];
    const Index residue = (shift % stride + stride) % stride, quotient = (shift - residue) / stride;
    const Index columns = (g.src.extent[2] - residue + stride - 1) / stride;  // of this residue
    Index begin = block.begin - quotient, end = (block.end < columns ? block.end : columns) - quotient;
    if (begin < 0) begin = 0;
    if (end > g.dst.extent[2]) end = g.dst.extent[2];
    if (begin >= end) return;
    const Index length = block.end - block.begin, panel_step = lines_of_dst() * g.dst.extent[2] * tile_lanes;
    const float* const from = packed + (residue * length + begin + quotient - block.begin) * rows;
    for (Index panel = first_panel; panel < end_panel; ++panel) {
      // A block's sums begin at zero: rounding errors are those of short sums.
      Lanes<tile_lanes> acc[rows] = {};
      for (Index l = 0; l < block.lines; ++l)
        if (to_line[l] >= 0)
          add_run(acc, from + l * stride * length * rows,
                  diff + panel * panel_step + (to_line[l] * g.dst.extent[2] + begin) * tile_lanes, panel_step,
                  end - begin);
      float* const sum = to + panel * tile_size;
      KEELSON_UNROLL_ROWS
      for (int r = 0; r < rows; ++r) {
        Lanes<tile_lanes> x;
        x.load(sum + r * tile_lanes);
        x.add_scaled(1, acc[r]);
        x.store(sum + r * tile_lanes);
      }
    }
  }

  KOKKOS_FUNCTION Index lines_of_dst() const { return g.dst.n * g.dst.extent[0] * g.dst.extent[1]; }

  /// Prefetches the same run of the next panel.
  KOKKOS_FORCEINLINE_FUNCTION static void add_run(Lanes<tile_lanes> (&acc)[rows], const float* a, const float* b,
                                                  Index to_next, Index count) {
    for (Index k = 0; k < count; ++k, a += rows, b += tile_lanes) {
      prefetch<true>(b + to_next);
      Lanes<tile_lanes> x;
      x.load(b);
      KEELSON_UNROLL_ROWS
      for (int r = 0; r < rows; ++r) acc[r].add_scaled(a[r], x);
    }
  }
};

/// Writes the sums of a tile and tap in the layout of the weights.
struct WriteTallSums {
  const float* sums;
  ConvGeometry g;
  Index rows, panels;
  float* weights;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index tap = item % g.taps, tile = item / g.taps;
    const Index w = tap % g.kernel[2], h = tap / g.kernel[2] % g.kernel[1], d = tap / g.kernel[2] / g.kernel[1];
    const Index begin = tile * rows + rows < g.ci ? tile * rows : g.ci - rows;
    float* const to = weights + d * g.weights_tap[0] + h * g.weights_tap[1] + w * g.weights_tap[2];
    for (Index channel = tile * rows; channel < begin + rows; ++channel)
      for (Index panel = 0; panel < panels; ++panel) {
        const float* const from = sums + ((item * panels + panel) * rows + channel - begin) * tile_lanes;
        const Index first = panel * tile_lanes, left = g.co - first;
        float* const x = to + channel * g.weights_i + first * g.weights_o;
        if (left >= tile_lanes && g.weights_o == 1) {
          Lanes<tile_lanes> all;
          all.load(from);
          all.store(x);
        } else {
          for (Index l = 0; l < tile_lanes && l < left; ++l) x[l * g.weights_o] = from[l];
        }
      }
  }
};

}  // namespace

bool TallWeightsGradient::suits(const ConvGeometry& g) {
  return runs_on_host && vector_width >= 8 && g.groups == 1 && g.ci >= 16 && g.co >= 16 && g.stride[2] <= 8 &&
         is_dense_channels_last(g.src) && is_dense_channels_last(g.dst);
}

TallWeightsGradient::TallWeightsGradient(const ConvGeometry& g)
    : g_(joined(g)),
      rows_(ceil_div(g.ci, ceil_div(g.ci, most_tile_rows))),
      tiles_(ceil_div(g.ci, rows_)),
      panels_(ceil_div(g.co, tile_lanes)) {}

std::string TallWeightsGradient::name() const { return fmt::format("outer_products:{}x{}", rows_, tile_lanes); }

std::size_t TallWeightsGradient::diff_bytes() const {
  return align64(static_cast<std::size_t>(panels_ * lines_of(g_.dst) * g_.dst.extent[2] * tile_lanes) * sizeof(float));
}

std::size_t TallWeightsGradient::scratch_bytes() const {
  return diff_bytes() +
         align64(static_cast<std::size_t>(tiles_ * g_.taps * panels_ * rows_ * tile_lanes) * sizeof(float));
}

template <int rows>
void TallWeightsGradient::multiply(const float* src, const float* diff, float* sums) const {
  constexpr const char* label = "keelson::conv::tall_products";
  if constexpr (rows > least_tile_rows)
    if (rows_ < rows) return multiply<rows - 1>(src, diff, sums);
  if constexpr (runs_on_host) {
    const Index workers = current_instance().concurrency(), enough = 4 * workers;
    const Index groups = std::clamp<Index>(ceil_div(enough, tiles_), 1, panels_);
    const TallWeightsKernel<rows> kernel{src,  g_,  SrcBlocks(g_.src, g_.stride[2]), panels_, ceil_div(panels_, groups),
                                         diff, sums};
    const Index units = tiles_ * kernel.units_of_tile();
    for_each_block(label, units, kernel, ceil_div(units, workers));
  }
}

void TallWeightsGradient::run(const float* src, const float* diff_dst, float* diff_weights, char* scratch) const {
  constexpr const char *pack_label = "keelson::conv::pack_tall_diff", *write_label = "keelson::conv::write_tall_sums";
  auto *diff = reinterpret_cast<float*>(scratch), *sums = reinterpret_cast<float*>(scratch + diff_bytes());
  const Index positions = lines_of(g_.dst) * g_.dst.extent[2];
  launch(pack_label, ceil_div(positions, PackTallDiff::run), PackTallDiff{diff_dst, positions, g_.co, panels_, diff});
  multiply<most_tile_rows>(src, diff, sums);
  launch(write_label, tiles_ * g_.taps, WriteTallSums{sums, g_, rows_, panels_, diff_weights});
}

}  // namespace keelson::kokkos
