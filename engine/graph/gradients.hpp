#pragma once

#include "engine/base/communicator.hpp"
#include "engine/graph/node_builder.hpp"

namespace keelson {

/// All gradients of a plan, and their exchange. Whole ones lie in one block, in the order in which backward makes them,
/// cut into buckets that are summed over ranks; those by rows are gathered from all ranks and then added up.
class Gradients {
 public:
  struct Bucket {
    std::string label;
    std::size_t offset = 0, count = 0;   ///< floats within the block
    int last_call = -1;                  ///< the bucket is complete after this call of the program
    std::shared_ptr<Collective> reduce;  ///< null with one rank
  };

  struct Rows {
    int last_call = -1;
    std::shared_ptr<Collective> gather_rows, gather_values;
  };

  /// Allocates the block and binds the program's gradient buffers to it.
  Gradients(CompileState& build, std::size_t bucket_bytes, Communicator* communicator);
  /// Appends the start of each bucket's exchange to the program, right after the call that completes it.
  void insert_exchange(Program& program);
  /// Appends the calls that add up the gathered rows, for when the exchange has ended; the plan's row gradients are
  /// then those of all ranks.
  void append_merge(CompileState& build);
  void wait();

  std::vector<Bucket>& buckets() { return buckets_; }
  const Tensor& block() const { return block_; }

 private:
  void gather(CompileState& build, const SparseGradient& mine, Communicator& communicator);

  Tensor block_;
  std::vector<Bucket> buckets_;
  std::vector<Rows> rows_;
  std::vector<SparseGradient> gathered_;  ///< of all ranks, one after the other
};

}  // namespace keelson
