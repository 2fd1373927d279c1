#pragma once

#include "apps/bench/scale/replay_job.hpp"

namespace keelson::replay {

/// The data that the ranks of a simulation share. SimGrid runs one rank at a time, so no locks are needed.
struct Replay {
  const bench::ReplayJob& job;
  std::vector<double> owed;     ///< for each rank: seconds that the exchange has taken from its computation
  std::vector<char> computing;  ///< for each rank: whether it computes now
  std::vector<double> slowest;  ///< for each step: seconds that its slowest rank computes
  double end = 0;               ///< when the last rank ended
  double wire_bytes = 0, messages = 0;

  explicit Replay(const bench::ReplayJob& j)
      : job(j), owed(j.ranks), computing(j.ranks), slowest(static_cast<std::size_t>(j.steps)) {}
};

}  // namespace keelson::replay
