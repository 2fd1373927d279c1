#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "comm/allreduce/schedule.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// An algorithm that sums an array over ranks.
struct AllreduceAlgorithm {
  /// The kind of the algorithm.
  enum class Kind : unsigned char {
    mpi,             ///< the MPI library's MPI_Iallreduce
    two_level,       ///< NodeSum; with several nodes: recursive halving between them
    two_level_ring,  ///< NodeSum, with a ring between nodes
    ring,
    halving,
    doubling  ///< PeerExchange over all ranks
  };

  Kind kind = Kind::mpi;        ///< the kind of the algorithm
  std::size_t piece_bytes = 0;  ///< long arrays are sent in pieces of this size, a few at a time; 0: without pieces

  /// The names of all algorithms: "mpi", ...
  static std::vector<std::string> names();
  /// "ring:4M"
  std::string to_string() const;
  /// The algorithm with this name. Throws InputError, with all names, for another text.
  static AllreduceAlgorithm parse(std::string_view text);
  /// Whether arrays may be sent in pieces.
  bool takes_pieces() const;
  /// The schedule for PeerExchange over all ranks; null for an algorithm of another kind.
  MakeSchedule schedule() const;
  bool operator==(const AllreduceAlgorithm&) const = default;
};

/// The facts that decide which algorithms are supported.
struct AllreduceFacts {
  int ranks = 1;               ///< ranks that take part
  int nodes = 1;               ///< nodes of these ranks
  bool shared_memory = false;  ///< the ranks of a node can share memory
  Wire wire = Wire::fp32;      ///< the type in which numbers are sent
  /// The order of summation.
  SumOrder order = SumOrder::any;
};

/// The supported algorithms that are worth timing for an array of so many bytes, the rule of thumb's first. Never
/// empty.
std::vector<AllreduceAlgorithm> allreduce_candidates(const AllreduceFacts& facts, std::size_t bytes);

/// Whether `algorithm` can sum arrays according to `facts`. The MPI library, for example, supports only Wire::fp32, and
/// adds in its own order.
bool is_supported(const AllreduceAlgorithm& algorithm, const AllreduceFacts& facts);

}  // namespace keelson::comm::detail
