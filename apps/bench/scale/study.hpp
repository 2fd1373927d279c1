#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/scale/profile.hpp"
#include "apps/bench/scale/replay_job.hpp"
#include "apps/bench/scale/scale_grid.hpp"

namespace keelson::bench {

/// One way to exchange gradients, as users name it: "overlap".
struct NamedExchange {
  std::string name;
  std::string what;  ///< one line
  ExchangeSettings settings;
};

/// The ways to exchange; each adds one thing to the way before: copied (if the machine's description says how a
/// published program copies), blocking, buckets, overlap, hidden (with parts of samples), two-level (if nodes have
/// several ranks), compressed.
std::vector<NamedExchange> exchanges(const Machine& machine, std::size_t bucket_bytes, const ScaleGrid& grid = {});

/// A figure that was measured on a real machine, for comparison.
struct Published {
  int ranks = 0;
  double efficiency = 0;
  std::string what;  ///< what ran, and the source
};
std::optional<Published> published_on(const Machine& machine);

/// A simulated step beside the step of a rank alone.
struct ScalePoint {
  std::string exchange;
  std::string grid;  ///< "data 512 x space 4x4"
  int ranks = 1;
  double samples = 1;    ///< of a replica, per step; relative to the profile
  double alone = 0;      ///< seconds of the step of a replica's samples on one rank, without exchange and imbalance
  double computing = 0;  ///< seconds that the rank with most work computes, without imbalance
  ReplayResult result;
  double efficiency = 0;  ///< rate of all ranks, divided by the ideal rate

  double imbalance() const { return result.slowest - computing; }  ///< seconds that others wait for the slowest rank
  /// Seconds of communication, and of waiting for other stages, that are hidden neither by computation nor by the wait
  /// for the slowest rank.
  double exposed() const { return std::max(0.0, result.step - result.slowest); }
};

/// The data that are the same for all points.
struct ScaleStudy {
  StepProfile profile;  ///< with the times of the machine
  Machine machine;
  ScaleGrid grid;
  int steps = 2;  ///< simulated steps; results are means over them
  unsigned seed = 1;
  std::filesystem::path program;  ///< keelson-scale-replay

  /// Weak scaling: each replica has the profile's samples. The ideal is the rate of one rank alone, times the ranks.
  /// Runs the simulation. Throws InputError for ranks that the machine or the grid does not have.
  ScalePoint weak(const NamedExchange& exchange, int ranks) const;
  /// Strong scaling: all ranks together have `samples` times the profile's samples. The ideal is the rate of one rank
  /// alone with all of these samples.
  ScalePoint strong(const NamedExchange& exchange, int ranks, double samples) const;

 private:
  ScalePoint simulate(const NamedExchange& exchange, const ScaleGrid& on, double samples) const;
};

/// Path of keelson-scale-replay, which lies beside this program. If it is missing, throws InputError that says how to
/// get it.
std::filesystem::path replay_program();

/// Runs the simulation. Throws Error with what the program printed if it fails.
ReplayResult run_replay(const std::filesystem::path& program, const ReplayJob& job);

}  // namespace keelson::bench
