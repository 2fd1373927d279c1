#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "comm/allreduce/algorithm.hpp"
#include "comm/allreduce/allreduces.hpp"
#include "comm/communicators.hpp"
#include "engine/tune/autotuner.hpp"

namespace keelson::comm::detail {

/// Chooses the algorithm for an array, once per power of two of bytes: the ranks together time all algorithms that the
/// group supports (Autotuner). KEELSON_ALLREDUCE sets the algorithm instead.
class AllreduceChooser {
 public:
  /// Throws InputError if KEELSON_ALLREDUCE does not name an algorithm.
  explicit AllreduceChooser(Allreduces& allreduces);

  /// The same result on all ranks. Collective.
  AllreduceAlgorithm choose(std::size_t bytes, Wire wire, SumOrder order = SumOrder::any);
  /// See comm::choose_bucket_bytes(). Collective.
  std::size_t choose_bucket_bytes(Wire wire);
  /// The time of each algorithm, and of the blocking MPI_Allreduce, in seconds on the slowest rank. Collective.
  std::vector<AllreduceTime> measure(std::size_t bytes, Wire wire, SumOrder order = SumOrder::any);

 private:
  std::string fastest_bucket(Wire wire);
  std::string group_key(Wire wire, SumOrder order) const;

  Allreduces& allreduces_;
  std::string requested_;  ///< KEELSON_ALLREDUCE; empty: none
  Autotuner autotuner_;
  std::map<std::tuple<std::size_t, Wire, SumOrder>, AllreduceAlgorithm> known_;  ///< by power of two of bytes
};

}  // namespace keelson::comm::detail
