#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/bench/timing.hpp"
#include "comm/communicators.hpp"
#include "engine/ops/context.hpp"

namespace keelson::bench {

struct AllreduceRepeats {
  int timed = 20, warmup = 3;
  bool compare = false;  ///< time all algorithms
};

/// The times for arrays of one size.
struct AllreduceResult {
  std::uint64_t bytes = 0;                      ///< size of the array
  Timing seconds;                               ///< of the slowest rank
  int ranks = 1;                                ///< ranks that took part
  std::string algorithm;                        ///< empty: the engine did not choose it
  std::vector<comm::AllreduceTime> algorithms;  ///< with AllreduceRepeats::compare

  /// Bytes of the array per second.
  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.median; }
  /// The least bandwidth that a link must have: each rank sends and receives 2 (n - 1) / n of the array (NCCL's tests
  /// count in the same way).
  double bus_bandwidth() const { return algorithm_bandwidth() * 2 * (ranks - 1) / ranks; }
};

/// Times the engine's sum of `bytes` bytes of f32 in the device's memory, one sum at a time; checks the result once.
/// Throws Error if the result is wrong. Collective.
AllreduceResult measure_allreduce(std::uint64_t bytes, const AllreduceRepeats& repeats, Context& context,
                                  Communicator& world);

nlohmann::json allreduce_json(const AllreduceResult& r);  ///< as `keelson-bench allreduce --json` prints a size

}  // namespace keelson::bench
