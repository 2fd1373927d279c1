#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/scale/profile.hpp"
#include "apps/bench/scale/replay_job.hpp"

namespace keelson::bench {

/// One way to exchange gradients, as users name it: "overlap".
struct NamedExchange {
  std::string name;
  std::string what;  ///< one line
  ExchangeSettings settings;
};

/// Each adds one thing to the one before: blocking, buckets, overlap, two-level (where nodes have several ranks),
/// compressed.
std::vector<NamedExchange> exchanges(const Machine& machine, std::size_t bucket_bytes);

/// What was measured on a real machine, to compare with.
struct Published {
  int ranks = 0;
  double efficiency = 0;
  std::string what;  ///< what ran, and who says so
};
std::optional<Published> published_on(const Machine& machine);

/// A simulated step beside the step of a rank alone.
struct ScalePoint {
  std::string exchange;
  int ranks = 1;
  double samples = 1;  ///< of a rank, per step; relative to the profile
  double alone = 0;    ///< seconds of the step without exchange and imbalance
  ReplayResult result;
  double efficiency = 0;  ///< rate of all ranks over the ideal one

  double imbalance() const { return result.slowest - alone; }  ///< seconds that others wait for the slowest rank
  /// Seconds of communication that nothing hides, not even the wait for the slowest rank.
  double exposed() const { return std::max(0.0, result.step - result.slowest); }
};

/// What does not change from point to point.
struct ScaleStudy {
  StepProfile profile;  ///< as long as on the machine
  Machine machine;
  int steps = 2;  ///< simulated ones, of which the mean counts
  unsigned seed = 1;
  std::filesystem::path program;  ///< keelson-scale-replay

  /// Weak scaling: each rank has the profile's samples. Runs the simulation.
  ScalePoint weak(const NamedExchange& exchange, int ranks) const;
  /// Strong scaling: all ranks together have `samples` times the profile's samples. The ideal is one rank alone with
  /// all of them.
  ScalePoint strong(const NamedExchange& exchange, int ranks, double samples) const;

 private:
  ScalePoint simulate(const NamedExchange& exchange, int ranks, double samples) const;
};

/// keelson-scale-replay beside the program that runs. Throws InputError, saying how to get it, where there is none.
std::filesystem::path replay_program();

/// Runs the simulation. Throws Error with what the program printed if it fails.
ReplayResult run_replay(const std::filesystem::path& program, const ReplayJob& job);

}  // namespace keelson::bench
