#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/allreduce/algorithm.hpp"
#include "comm/allreduce/node_sum.hpp"
#include "comm/mpi/collective_work.hpp"

namespace keelson::comm::detail {

/// Makes allreduces of f32 for one communicator, by any algorithm, and exchanges of parts. This object must outlive
/// them. All ranks make the same calls.
class Allreduces {
 public:
  /// All ranks of a node share memory, or, with KEELSON_NODE_RANKS, groups of this number of ranks. Collective.
  explicit Allreduces(MPI_Comm comm);
  ~Allreduces();
  Allreduces(const Allreduces&) = delete;

  MPI_Comm comm() const { return comm_; }
  AllreduceFacts facts(Wire wire, SumOrder order = SumOrder::any) const {
    return {ranks_, layout_.nodes, shared_memory_, wire, order};
  }
  /// Throws InputError if the algorithm is not supported. Collective.
  std::unique_ptr<CollectiveWork> make(const AllreduceAlgorithm& algorithm, const CollectiveDesc& desc);
  /// A reduce-scatter or an allgather by PartExchange. Collective.
  std::unique_ptr<CollectiveWork> make_part_exchange(const CollectiveDesc& desc);

 private:
  void find_nodes();
  NodeSum& node_sum(bool ring, Wire wire);
  int take_tags(int count);

  MPI_Comm comm_ = MPI_COMM_NULL;  ///< a duplicate that only these messages use
  int rank_ = 0, ranks_ = 1, next_tag_ = 0;
  NodeLayout layout_;
  bool shared_memory_ = false;                                           ///< some ranks share memory
  std::map<std::pair<bool, Wire>, std::unique_ptr<NodeSum>> node_sums_;  ///< by: whether a ring is between nodes, wire
};

}  // namespace keelson::comm::detail
