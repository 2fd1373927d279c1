#pragma once

#include "engine/plan/collectives.hpp"

namespace keelson {

/// All gradients of a plan. Each rank makes its own term, and the optimizer reads the sum over all ranks. Whole
/// gradients lie in one block, in the order in which backward makes them, cut into buckets. Gradients by rows are
/// gathered from all ranks and then added up.
class Gradients {
 public:
  /// Gives the program's gradient buffers their places in the block, and appends the calls that add up gathered rows:
  /// the plan's gradients by rows are then those of all ranks.
  Gradients(CompileState& build, std::size_t bucket_bytes);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<Call>& gathers() const { return gathers_; }  ///< starts
  std::int64_t floats() const { return floats_; }                ///< of the block

 private:
  void fill_buckets(CompileState& build, std::size_t bucket_bytes);
  SparseGradient gather(CompileState& build, const SparseGradient& mine);

  std::int64_t floats_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<Call> gathers_;
};

}  // namespace keelson
