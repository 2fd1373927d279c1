#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "comm/allreduce/algorithm.hpp"
#include "comm/allreduce/allreduces.hpp"
#include "comm/communicators.hpp"
#include "engine/base/detail/choice_cache.hpp"

namespace keelson::comm::detail {

/// Chooses the algorithm for an array by timing the supported algorithms, once per power of two of bytes. The choice is
/// kept in a file, per MPI library, number of ranks and nodes. KEELSON_ALLREDUCE names the algorithm instead.
/// KEELSON_TUNE=off takes the rule of thumb. KEELSON_VERBOSE=1 prints the times.
class AllreduceChooser {
 public:
  /// Throws InputError where the environment names no algorithm.
  explicit AllreduceChooser(Allreduces& allreduces);

  /// The same on all ranks. Collective.
  AllreduceAlgorithm choose(std::size_t bytes, Wire wire, SumOrder order = SumOrder::any);
  /// As comm::choose_bucket_bytes(). Collective.
  std::size_t choose_bucket_bytes(Wire wire);
  /// Seconds of each algorithm, of the slowest rank, and of the blocking MPI_Allreduce. Collective.
  std::vector<AllreduceTime> measure(std::size_t bytes, Wire wire, SumOrder order = SumOrder::any);

 private:
  /// The choice for `key` in the first rank's file, or else the result of `measure`, which all ranks then call.
  std::string agree(const std::string& key, const std::function<bool(const std::string&)>& usable,
                    const std::function<std::string()>& measure);
  std::string fastest_algorithm(std::size_t bytes, Wire wire, SumOrder order);
  std::string fastest_bucket(Wire wire);
  std::string group_key(Wire wire, SumOrder order) const;

  Allreduces& allreduces_;
  std::string requested_;  ///< KEELSON_ALLREDUCE; empty: none
  bool off_;
  int rank_ = 0;
  ChoiceCache cache_;                                                            ///< of rank 0
  std::map<std::tuple<std::size_t, Wire, SumOrder>, AllreduceAlgorithm> known_;  ///< by power of two of bytes
};

}  // namespace keelson::comm::detail
