#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "search/log/population.hpp"
#include "search/method/method.hpp"
#include "search/run/job.hpp"

namespace keelson::search {

/// A training of a search whose clock is simulated.
struct VirtualTraining {
  std::int64_t id = 0;        ///< of the network
  int rung = 0;               ///< that was trained
  int worker = 0;             ///< slot of the worker
  double begin = 0, end = 0;  ///< seconds since the search began
  Result result;              ///< as the caller gave it
};

/// A search whose clock was simulated.
struct VirtualSearch {
  Population population;                   ///< at the end
  std::vector<std::string> lines;          ///< of the log
  std::vector<VirtualTraining> trainings;  ///< in the order of their ends
  double seconds = 0;                      ///< of the whole search
  double busy = 0;                         ///< part of the workers' time in which they trained
};

/// Runs a search without training: `result_of` says what a training up to a rung would show, and how many seconds this
/// rung takes (Result::seconds). The workers make the same choices as real ones, in the order of the simulated clock,
/// so that methods can be compared in seconds (Hvarfner et al. 2024, arXiv 2403.01888).
VirtualSearch search_virtually(const Settings& settings, const Method& method, int workers, const Budget& budget,
                               const std::function<Result(const Individual&, int rung)>& result_of);

}  // namespace keelson::search
