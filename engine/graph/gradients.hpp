#pragma once

#include "engine/base/communicator.hpp"
#include "engine/graph/node_plan.hpp"

namespace keelson {

/// All gradients of a plan in one block, in the order in which backward makes them, cut into buckets that are summed
/// over ranks.
class Gradients {
 public:
  struct Bucket {
    std::string label;
    std::size_t offset = 0, count = 0;  ///< floats within the block
    int last_call = -1;                 ///< the bucket is complete after this call of the program
    std::unique_ptr<Allreduce> reduce;  ///< null with one rank
  };

  /// Allocates the block and binds the program's gradient buffers to it.
  Gradients(PlanBuild& build, std::size_t bucket_bytes, Communicator* communicator);
  /// Appends the start of each bucket's exchange to the program, right after the call that completes it.
  void insert_exchange(Program& program);

  std::vector<Bucket>& buckets() { return buckets_; }
  const Tensor& block() const { return block_; }

 private:
  Tensor block_;
  std::vector<Bucket> buckets_;
};

}  // namespace keelson
