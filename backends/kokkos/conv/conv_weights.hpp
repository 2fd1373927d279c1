#pragma once

#include "backends/kokkos/conv/conv_geometry.hpp"

namespace keelson::kokkos {

/// Divides the positions of dst for the gradient of the weights. Blocks are processed one after the other; a block
/// stays in cache while all tiles read it. If there are few tiles, a block has several slots, each with its own sums. A
/// slot has runs of positions along W.
struct PositionBlocks {
  Index lines = 0, runs_per_line = 0, positions_per_run = 0;  ///< the last run of a line may be shorter
  Index slots = 0, runs_per_slot = 0, blocks = 0;             ///< slots of one block

  PositionBlocks() = default;
  /// `tiles`: work items of a slot. `bytes`: the size of a slot's sums.
  PositionBlocks(const ConvGeometry& g, Index tiles, std::size_t bytes);

  KOKKOS_FUNCTION Index runs() const { return lines * runs_per_line; }
  KOKKOS_FUNCTION Index runs_per_block() const { return slots * runs_per_slot; }
};

/// diff_weights[tap][i][o] = sum over positions of src[position + tap][i] * diff_dst[position][o]: products of tiles
/// whose rows are input channels (and neighbouring taps), and whose lanes are output channels. The result does not
/// depend on the number of threads. TallWeightsGradient takes its place where that suits.
class ConvWeightsGradient {
 public:
  /// `src`: the view that forward reads.
  ConvWeightsGradient(const ConvGeometry& g, const ViewPlan& src);

  std::size_t scratch_bytes() const;
  std::string name() const;
  void run(const float* src, const float* diff_dst, float* diff_weights, char* scratch) const;

 private:
  Index row_tiles() const;  ///< of all taps
  Index tiles() const;      ///< tiles of a slot
  void list_rows(const ChannelView& src, Index* offsets) const;
  std::size_t packed_bytes() const;
  std::size_t sums_bytes() const;  ///< size of a slot's sums

  ConvGeometry g_;
  ViewPlan src_;
  Index lanes_, panels_;
  Index rows_;   ///< input channels, times the taps that are contiguous with them in memory
  Triple taps_;  ///< the other taps
  /// Whether rows are all taps and channels, wherever these are in memory: with few channels, the tiles of a single tap
  /// would be nearly empty.
  bool lists_rows_ = false;
  bool packs_;  ///< diff_dst, unless a panel is the whole of it
  PositionBlocks blocks_;
};

}  // namespace keelson::kokkos
