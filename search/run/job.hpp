#pragma once

#include <cstdint>
#include <string>

#include "search/log/population.hpp"
#include "search/method/method.hpp"

namespace keelson::search {

/// When a search ends.
struct Budget {
  std::int64_t networks = 0;  ///< after so many networks were begun; 0: no limit
  double until = 0;           ///< no training begins after this time, in seconds since 1970; 0: no limit
};

/// What a free worker does next.
struct Job {
  enum class Kind : std::uint8_t {
    train,  ///< append `line`; if the population then gives the training to this worker (owns()), train
    wait,   ///< others train networks that may be promoted or lost
    done    ///< nothing is left to do
  };
  Kind kind = Kind::done;
  std::string line;      ///< claims the training
  std::int64_t id = -1;  ///< of the network
  int rung = 0, attempt = 0;
  std::string key;  ///< of the network's genome
};

/// Trainings that were lost come first, then promotions, then new networks. `now`: seconds since 1970.
Job next_job(const Population& population, const Method& method, int slot, const Budget& budget, double now);

/// Whether this job's line, which the population has just applied as its latest, has given the training to the worker:
/// another worker's line may have come first.
bool owns(const Population& population, const Job& job, int slot);

}  // namespace keelson::search
