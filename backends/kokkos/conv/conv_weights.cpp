#include "backends/kokkos/conv/conv_weights.hpp"

#include <algorithm>
#include <array>

#include "backends/kokkos/common/tile.hpp"

namespace keelson::kokkos {

namespace {

constexpr Index most_listed_rows = 512;

/// A run of positions along W.
struct PositionRun {
  Index n, d, h, w, count;  ///< first position, and the number of positions

  KOKKOS_FUNCTION PositionRun(const PositionBlocks& b, const Triple& extent, Index run)
      : n(run / b.runs_per_line / (extent[1] * extent[0])),
        d(run / b.runs_per_line / extent[1] % extent[0]),
        h(run / b.runs_per_line % extent[1]),
        w(run % b.runs_per_line * b.positions_per_run),
        count(extent[2] - w < b.positions_per_run ? extent[2] - w : b.positions_per_run) {}
};

/// Packs a block of diff_dst into panels of lanes, with zeros after the last channel. One work item per (group, panel,
/// run).
template <int lanes>
struct PackDiff {
  const float* diff;
  Volume dst;
  Triple extent;
  PositionBlocks blocks;
  Index block, panels, channels;  ///< channels of a group
  float* packed;

  KOKKOS_FUNCTION void operator()(Index item) const {
    float* to = packed + item * blocks.positions_per_run * lanes;
    const Index run = block * blocks.runs_per_block() + item % blocks.runs_per_block();
    if (run >= blocks.runs()) return;
    item /= blocks.runs_per_block();
    const Index first = item % panels * lanes, group = item / panels;
    const Index valid = channels - first < lanes ? channels - first : lanes;
    const PositionRun r(blocks, extent, run);
    const float* from = diff + r.n * dst.stride_n + r.d * dst.stride[0] + r.h * dst.stride[1] + r.w * dst.stride[2] +
                        (group * channels + first) * dst.stride_c;
    for (Index w = 0; w < r.count; ++w, from += dst.stride[2], to += lanes) {
      if (valid == lanes && dst.stride_c == 1) {
        Lanes<lanes> v;
        v.load(from);
        v.store(to);
        continue;
      }
      for (Index l = 0; l < valid; ++l) to[l] = from[l * dst.stride_c];
      for (Index l = valid; l < lanes; ++l) to[l] = 0;
    }
  }
};

/// In one dim: the range of positions for which a tap reads inside the source.
struct TapReach {
  Index results, extent;    ///< of dst, of src
  Index stride, pad, step;  ///< step: from tap to tap; 0 if all taps are rows of one tile

  /// [first, last): the positions of dst for which this tap reads inside src.
  KOKKOS_FUNCTION void positions(Index tap, Index& first, Index& last) const {
    first = 0, last = results;
    if (step == 0) return;
    const Index shift = tap * step - pad;  // source coordinate of position 0
    if (shift < 0) first = ceil_div(-shift, stride);
    const Index end = shift >= extent ? 0 : ceil_div(extent - shift, stride);
    last = end < results ? end : results;
  }
};

/// Adds a block's products to the sums: a tile for each (slot, group, panel, rows, tap).
template <int lanes>
struct WeightsTile {
  ChannelView src;
  Triple src_step, tap_src, taps;  ///< of src: from position to position, from tap to tap
  Triple extent;                   ///< of dst
  TapReach reach[3];
  Index rows, row_tiles, panels, groups;
  const Index* row_offsets;  ///< of src; null: rows are neighbours in memory
  PositionBlocks blocks;
  Index block;
  const float* packed;    ///< diff_dst: (group, panel, run, position, lane)
  const float* in_place;  ///< all of diff_dst: (position, lane); null: it is packed
  float* sums;            ///< (slot, group, panel, tap, row, lane)

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index tap_count = taps[0] * taps[1] * taps[2], tap = item % tap_count;
    item /= tap_count;
    const Index first_row = item % row_tiles * tile_rows;
    item /= row_tiles;
    const Index panel = item % panels;
    item /= panels;
    const Index group = item % groups, slot = item / groups;

    const Index valid = first_row + tile_rows < rows ? tile_rows : rows - first_row;
    Index row[tile_rows];
    for (int r = 0; r < tile_rows; ++r) {
      const Index number = first_row + (r < valid ? r : valid - 1);
      row[r] = row_offsets ? row_offsets[number] : number;
    }
    float* const to =
        sums + ((((slot * groups + group) * panels + panel) * tap_count + tap) * rows + first_row) * lanes;
    Lanes<lanes> acc[tile_rows];
    const float zero[lanes] = {};
    KEELSON_UNROLL
    for (int r = 0; r < tile_rows; ++r) acc[r].load(block == 0 || r >= valid ? zero : to + r * lanes);

    const Index at[3] = {tap / (taps[1] * taps[2]), tap / taps[2] % taps[1], tap % taps[2]};
    const float* from = src.data + src.base + group * src.step_g;
    Index first[3], last[3];  // positions whose source is not padding
    for (int d = 0; d < 3; ++d) {
      from += at[d] * tap_src[d];
      reach[d].positions(at[d], first[d], last[d]);
    }
    const Index packed_run = blocks.positions_per_run * lanes, first_run = slot * blocks.runs_per_slot;
    const float* diff = packed + ((group * panels + panel) * blocks.runs_per_block() + first_run) * packed_run;
    const Index begin = block * blocks.runs_per_block() + first_run;
    const Index end = begin + blocks.runs_per_slot < blocks.runs() ? begin + blocks.runs_per_slot : blocks.runs();
    for (Index run = begin; run < end; ++run, diff += packed_run) {
      const PositionRun r(blocks, extent, run);
      if (r.d < first[0] || r.d >= last[0] || r.h < first[1] || r.h >= last[1]) continue;
      const Index begin_w = r.w > first[2] ? r.w : first[2];
      const Index end_w = r.w + r.count < last[2] ? r.w + r.count : last[2];
      const float* const of_run = in_place ? in_place + (run / blocks.runs_per_line * extent[2] + r.w) * lanes : diff;
      multiply(acc, from + r.n * src.step_n + r.d * src_step[0] + r.h * src_step[1] + begin_w * src_step[2], row,
               src_step[2], of_run + (begin_w - r.w) * lanes, Index{lanes}, end_w - begin_w);
    }
    for (int r = 0; r < valid; ++r) acc[r].store(to + r * lanes);
  }
};

/// Adds the slots, and writes in the weights' layout. One work item per (group, panel, tap, input channel).
template <int lanes>
struct AddWeightSlots {
  const float* sums;
  float* weights;
  Index slots, groups, panels, ci, co;
  Triple kernel, tap_stride;
  Index stride_o, stride_i;

  KOKKOS_FUNCTION void operator()(Index item) const {
    float sum[lanes] = {};
    const Index slot_size = groups * panels * kernel[0] * kernel[1] * kernel[2] * ci * lanes;
    for (Index s = 0; s < slots; ++s) {
      const float* p = sums + s * slot_size + item * lanes;
      for (int l = 0; l < lanes; ++l) sum[l] += p[l];
    }
    const Index i = item % ci;
    item /= ci;
    const Index kw = item % kernel[2];
    item /= kernel[2];
    const Index kh = item % kernel[1];
    item /= kernel[1];
    const Index kd = item % kernel[0];
    item /= kernel[0];
    const Index first = item % panels * lanes, group = item / panels;
    const Index count = first + lanes < co ? lanes : co - first;
    float* to = weights + (group * co + first) * stride_o + i * stride_i + kd * tap_stride[0] + kh * tap_stride[1] +
                kw * tap_stride[2];
    for (Index l = 0; l < count; ++l) to[l * stride_o] = sum[l];
  }
};

}  // namespace

PositionBlocks::PositionBlocks(const ConvGeometry& g, Index tiles, std::size_t bytes) {
  constexpr Index near_positions = runs_on_host ? 256 : 4096, longest_run = 288;
  constexpr Index many_tiles = runs_on_host ? 512 : 16384;
  constexpr std::size_t most_bytes = std::size_t{32} << 20;
  lines = g.dst.n * g.dst.extent[0] * g.dst.extent[1];
  runs_per_line = ceil_div(g.dst.extent[2], longest_run);
  positions_per_run = ceil_div(g.dst.extent[2], runs_per_line);
  runs_per_slot = std::clamp<Index>(near_positions / positions_per_run, 1, runs());
  const Index all = ceil_div(runs(), runs_per_slot), room = static_cast<Index>(most_bytes / bytes);
  slots = std::clamp<Index>(ceil_div(many_tiles, tiles), 1, std::clamp<Index>(room, 1, all));
  blocks = ceil_div(all, slots);
  runs_per_slot = ceil_div(runs(), slots * blocks);  // avoids a last slot with few runs
}

ConvWeightsGradient::ConvWeightsGradient(const ConvGeometry& g, const ViewPlan& src)
    : g_(g),
      src_(src),
      lanes_(lanes_for(g.co)),
      panels_(ceil_div(g.co, lanes_)),
      rows_(g.ci),
      taps_(g.kernel),
      packs_(!runs_on_host || g.groups > 1 || g.co != lanes_ || !is_dense_channels_last(g.dst)) {
  for (int d = 2; d >= 0; --d) {
    if (taps_[d] != 1 && g.dilation[d] * src.step(d) != rows_) break;
    rows_ *= taps_[d];
    taps_[d] = 1;
  }
  const Index all = g.taps * g.ci;
  if (runs_on_host && all <= most_listed_rows && ceil_div(all, tile_rows) < row_tiles()) {
    rows_ = all;
    taps_ = {1, 1, 1};
    lists_rows_ = true;
  }
  blocks_ = PositionBlocks(g, tiles(), sums_bytes());
}

std::string ConvWeightsGradient::name() const { return fmt::format("outer_products:{}x{}", tile_rows, lanes_); }

Index ConvWeightsGradient::row_tiles() const { return taps_[0] * taps_[1] * taps_[2] * ceil_div(rows_, tile_rows); }
Index ConvWeightsGradient::tiles() const { return g_.groups * panels_ * row_tiles(); }
std::size_t ConvWeightsGradient::packed_bytes() const {
  if (!packs_) return 0;
  const Index positions = blocks_.runs_per_block() * blocks_.positions_per_run;
  return align64(static_cast<std::size_t>(g_.groups * panels_ * positions * lanes_) * sizeof(float));
}
std::size_t ConvWeightsGradient::sums_bytes() const {
  return static_cast<std::size_t>(g_.groups * panels_ * g_.taps * g_.ci * lanes_) * sizeof(float);
}
std::size_t ConvWeightsGradient::scratch_bytes() const {
  return src_.scratch_bytes() + packed_bytes() + align64(sums_bytes() * static_cast<std::size_t>(blocks_.slots));
}

void ConvWeightsGradient::list_rows(const ChannelView& src, Index* offsets) const {
  for (Index d = 0; d < g_.kernel[0]; ++d)
    for (Index h = 0; h < g_.kernel[1]; ++h)
      for (Index w = 0; w < g_.kernel[2]; ++w)
        for (Index i = 0; i < g_.ci; ++i)
          *offsets++ = g_.dilation[0] * d * src.step[0] + g_.dilation[1] * h * src.step[1] +
                       g_.dilation[2] * w * src.step[2] + i;
}

void ConvWeightsGradient::run(const float* src, const float* diff_dst, float* diff_weights, char* scratch) const {
  constexpr const char *pack_label = "keelson::conv::pack_diff", *label = "keelson::conv::backward_weights",
                       *sum_label = "keelson::conv::add_slots";
  auto* packed = reinterpret_cast<float*>(scratch + src_.scratch_bytes());
  auto* sums = reinterpret_cast<float*>(scratch + src_.scratch_bytes() + packed_bytes());
  const Triple extent = {g_.dst.extent[0], g_.dst.extent[1], g_.dst.extent[2]};
  const ChannelView view = src_.make(src, reinterpret_cast<float*>(scratch));
  std::array<Index, most_listed_rows> offsets;
  if (lists_rows_) list_rows(view, offsets.data());
  with_lanes(g_.co, [&](auto lanes) {
    WeightsTile<lanes.value> tile{};
    tile.src = view;
    for (int d = 0; d < 3; ++d) {
      tile.src.base -= g_.pad[d] * view.step[d];
      tile.src_step[d] = g_.stride[d] * view.step[d];
      tile.tap_src[d] = g_.dilation[d] * view.step[d];
      const bool joined = taps_[d] != g_.kernel[d];
      tile.reach[d] = {g_.dst.extent[d], g_.src.extent[d], g_.stride[d], g_.pad[d], joined ? 0 : g_.dilation[d]};
    }
    tile.taps = taps_, tile.extent = extent;
    tile.row_offsets = lists_rows_ ? offsets.data() : nullptr;
    tile.rows = rows_, tile.row_tiles = ceil_div(rows_, tile_rows), tile.panels = panels_, tile.groups = g_.groups;
    tile.blocks = blocks_, tile.packed = packed, tile.in_place = packs_ ? nullptr : diff_dst, tile.sums = sums;
    for (; tile.block < blocks_.blocks; ++tile.block) {
      if (packs_)
        launch(pack_label, g_.groups * panels_ * blocks_.runs_per_block(),
               PackDiff<lanes.value>{diff_dst, g_.dst, extent, blocks_, tile.block, panels_, g_.co, packed});
      launch(label, blocks_.slots * tiles(), tile);
    }
    launch(sum_label, g_.groups * panels_ * g_.taps * g_.ci,
           AddWeightSlots<lanes.value>{sums, diff_weights, blocks_.slots, g_.groups, panels_, g_.ci, g_.co, g_.kernel,
                                       g_.weights_tap, g_.weights_o, g_.weights_i});
  });
}

}  // namespace keelson::kokkos
