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

/// Of arrays of one size.
struct AllreduceResult {
  std::uint64_t bytes = 0;                      ///< of the array
  Timing seconds;                               ///< of the slowest rank
  int ranks = 1;                                ///< that took part
  std::string algorithm;                        ///< empty: not ours to choose
  std::vector<comm::AllreduceTime> algorithms;  ///< with AllreduceRepeats::compare

  /// Bytes of the array per second.
  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.median; }
  /// What a link must carry at least: each rank sends and receives 2 (n - 1) / n of the array (as NCCL's tests count).
  double bus_bandwidth() const { return algorithm_bandwidth() * 2 * (ranks - 1) / ranks; }
};

/// Times the engine's own sum of so many bytes of f32 in the device's memory, one at a time; checks the sum once.
/// Throws Error for a wrong sum. Collective.
AllreduceResult measure_allreduce(std::uint64_t bytes, const AllreduceRepeats& repeats, Context& context,
                                  Communicator& world);

nlohmann::json allreduce_json(const AllreduceResult& r);  ///< as `keelson-bench allreduce --json` prints a size

}  // namespace keelson::bench
