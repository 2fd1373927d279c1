#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/allreduce/algorithm.hpp"
#include "comm/allreduce/detail/node_sum.hpp"
#include "comm/detail/collective_work.hpp"

namespace keelson::comm::detail {

/// Makes the allreduces of f32 of one communicator, by any algorithm. Outlives what it makes. All ranks call it alike.
class Allreduces {
 public:
  /// Ranks of KEELSON_NODE_RANKS, where that is set, else of a node count as those that share memory. Collective.
  explicit Allreduces(MPI_Comm comm);
  ~Allreduces();
  Allreduces(const Allreduces&) = delete;

  MPI_Comm comm() const { return comm_; }
  AllreduceFacts facts(Wire wire, SumOrder order = SumOrder::any) const {
    return {ranks_, layout_.nodes, shared_memory_, wire, order};
  }
  /// Throws InputError where the algorithm cannot be had. Collective.
  std::unique_ptr<CollectiveWork> make(const AllreduceAlgorithm& algorithm, const CollectiveDesc& desc);

 private:
  void find_nodes();
  NodeSum& node_sum(bool ring, Wire wire);
  int take_tags(int count);

  MPI_Comm comm_ = MPI_COMM_NULL;  ///< for these messages alone
  int rank_ = 0, ranks_ = 1, next_tag_ = 0;
  NodeLayout layout_;
  bool shared_memory_ = false;                                           ///< several ranks of a node can be found
  std::map<std::pair<bool, Wire>, std::unique_ptr<NodeSum>> node_sums_;  ///< by: a ring between nodes, wire
};

}  // namespace keelson::comm::detail
