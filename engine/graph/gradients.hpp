#pragma once

#include "engine/graph/node_builder.hpp"

namespace keelson {

/// All gradients of a plan, and their exchange. Each rank makes a partial sum; the optimizer reads the sum over all
/// ranks. Whole gradients lie in one block, in the order in which backward makes them, cut into buckets, of which each
/// is an allreduce. Sparse ones are gathered from all ranks and then added up.
class Gradients {
 public:
  /// Gives the program's gradient buffers their places in the block.
  Gradients(CompileState& build, std::size_t bucket_bytes);
  /// Inserts the start of each collective right after the call that completes what it sends. With one rank there is
  /// nothing to insert.
  void insert_starts(Program& program) const;
  /// Appends the ends of the collectives, then the calls that add up the gathered rows; the plan's sparse gradients are
  /// then those of all ranks.
  void append_ends(CompileState& build);

  std::size_t buckets() const { return buckets_; }
  std::int64_t floats() const { return floats_; }  ///< of the block

 private:
  /// One collective: it starts after this call of the program.
  struct Exchange {
    int last_call;
    Call start;
  };
  void add_buckets(CompileState& build, std::size_t bucket_bytes);
  void gather(CompileState& build, const SparseGradient& mine);

  std::int64_t floats_ = 0;
  std::size_t buckets_ = 0;
  std::vector<Exchange> exchanges_;
  std::vector<SparseGradient> gathered_;  ///< of all ranks, one after the other
};

/// The start of a collective on these operands. Its end is the same call with Step::wait.
Call start_collective(Program& program, Phase phase, const std::string& node, Communication::Kind kind,
                      std::vector<Operand> operands, std::string label);
Call end_of(Call start);

}  // namespace keelson
