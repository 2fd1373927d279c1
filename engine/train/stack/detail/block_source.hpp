#pragma once

#include <cstdint>
#include <optional>

#include "engine/ops/context.hpp"
#include "engine/train/stack/detail/batch_block.hpp"
#include "engine/train/stack/stacked_training.hpp"

namespace keelson::detail {

/// Reads a data set, and hands it to the workers in blocks of batches.
class BlockSource {
 public:
  /// `options` must outlive this. `trains`: in the order of training, with the transform; else in the order of the data
  /// set.
  BlockSource(const Dataset& data, const StackedOptions& options, bool trains, Context& context);
  BlockSource(const BlockSource&) = delete;
  BatchBlock& block(int i) { return *blocks_[i]; }  ///< one of two
  /// One pass over the data: fills the blocks of the ring, which are the two of this source, until the end. Returns
  /// false if StackedOptions::go_on has ended the pass before.
  bool feed(BlockRing& ring, std::int64_t epoch);

 private:
  const StackedOptions& options_;
  const bool trains_;
  SampleDecoding decoding_;
  Loader loader_;
  std::optional<BatchBlock> blocks_[2];
};

}  // namespace keelson::detail
