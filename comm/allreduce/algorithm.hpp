#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// An algorithm that sums an array over ranks.
struct AllreduceAlgorithm {
  /// What is done.
  enum class Kind : unsigned char {
    mpi,             ///< the MPI library's MPI_Iallreduce
    two_level,       ///< NodeSum; with several nodes: recursive halving between them
    two_level_ring,  ///< NodeSum, with a ring between nodes
    ring,
    halving,
    doubling  ///< PeerExchange over all ranks
  };

  Kind kind = Kind::mpi;        ///< what is done
  std::size_t piece_bytes = 0;  ///< long arrays are sent in pieces of this size, a few at a time; 0: as a whole

  /// "ring:4M"
  std::string to_string() const;
  /// The algorithm of this name. Throws InputError, with all names, for another text.
  static AllreduceAlgorithm parse(std::string_view text);
  bool operator==(const AllreduceAlgorithm&) const = default;
};

/// What decides which algorithms are supported.
struct AllreduceFacts {
  int ranks = 1;               ///< ranks that take part
  int nodes = 1;               ///< nodes of these ranks
  bool shared_memory = false;  ///< ranks of a node can share memory
  Wire wire = Wire::fp32;      ///< how numbers travel
  /// The order of summation.
  SumOrder order = SumOrder::any;
};

/// The algorithms that are worth timing for an array of so many bytes, that of the rule of thumb first. Only
/// supported algorithms are among them. Never empty.
std::vector<AllreduceAlgorithm> allreduce_candidates(const AllreduceFacts& facts, std::size_t bytes);

/// Whether `algorithm` sums arrays as `facts` asks. The MPI library, for example, knows only Wire::fp32, and adds in an
/// order of its own.
bool is_supported(const AllreduceAlgorithm& algorithm, const AllreduceFacts& facts);

}  // namespace keelson::comm::detail
