#pragma once

#include <string>
#include <vector>

#include "engine/plan/collectives.hpp"

namespace keelson {

/// The elements of one parameter that this rank updates, in the order of the memory.
struct ParameterSlice {
  std::string parameter;     ///< its name
  std::size_t bucket = 0;    ///< number of the bucket
  BufferId value, gradient;  ///< (count) f32
};

/// The parts of parameters, gradients and moments of each rank (OptimizerShards). Parameters lie in one block of
/// memory, bucket by bucket, as their gradients do. Of each bucket, the ranks have equal parts in the order of the
/// ranks. A part may begin and end within a parameter.
class Shards {
 public:
  /// Makes the block, and places the parameters of the buckets' gradients in it. `buckets` have shards.
  Shards(CompileState& build, const std::vector<Bucket>& buckets);

  const std::vector<ParameterSlice>& slices() const { return slices_; }  ///< in the order of the memory
  const Parameters::Block& block() const { return block_; }              ///< for the executor
  /// Starts of the allgathers of the parameters, one for each bucket.
  std::vector<Call> gathers(CompileState& build) const;
  /// Whether this buffer is a parameter, or a part of one, of this bucket.
  bool is_in(const Program& program, BufferId buffer, std::size_t bucket) const;

 private:
  struct Range {
    std::string node;
    std::size_t begin, bytes;  ///< in the block
  };

  BufferId memory_ = no_buffer;  ///< of the block
  Parameters::Block block_;
  std::vector<ParameterSlice> slices_;
  std::vector<Range> buckets_;
};

}  // namespace keelson
