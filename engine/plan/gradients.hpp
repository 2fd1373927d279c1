#pragma once

#include "engine/plan/collectives.hpp"
#include "engine/plan/plan.hpp"
#include "engine/plan/shards.hpp"

namespace keelson {

/// All gradients of a plan. Each rank makes its own term, and the optimizer reads the sum over all ranks. Whole
/// gradients lie in one block, in the order in which backward makes them, cut into buckets. With
/// OptimizerShards::gradients the block holds this rank's shards alone, and buckets lie in the arena. Gradients by rows
/// are gathered from all ranks and then added up.
class Gradients {
 public:
  /// Gives the gradient buffers of the program their places in the block, in buckets of at least
  /// `exchange.bucket_bytes` bytes (the last bucket may hold less). Appends the calls that add up gathered rows.
  /// `build.sparse_gradients` are those of all ranks afterwards.
  Gradients(CompileState& build, const ExchangeOptions& exchange);

  const std::vector<Bucket>& buckets() const { return buckets_; }  ///< in the order in which backward fills them
  const std::vector<Call>& gathers() const { return gathers_; }    ///< starts of the allgathers of rows
  std::int64_t floats() const { return floats_; }                  ///< f32 elements of the block
  const std::optional<Shards>& shards() const { return shards_; }  ///< if CompileState::shards is not none
  /// This rank's own gradients by rows, before those of all ranks are gathered.
  const std::vector<SparseGradient>& own_rows() const { return own_rows_; }

 private:
  void fill_buckets(CompileState& build, const ExchangeOptions& exchange);
  Bucket place(CompileState& build, Bucket bucket, std::size_t bytes);
  SparseGradient gather(CompileState& build, const SparseGradient& mine);

  std::int64_t floats_ = 0;
  std::vector<Bucket> buckets_;
  std::optional<Shards> shards_;
  std::vector<Call> gathers_;
  std::vector<SparseGradient> own_rows_;
};

}  // namespace keelson
