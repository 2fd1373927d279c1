#pragma once

#include <cstdint>
#include <optional>
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
  /// What is to be done.
  enum class Kind : std::uint8_t {
    train,  ///< append `line`; if the training is then claimed(), train
    wait,   ///< others train networks that may be promoted or lost
    done    ///< nothing is left to do
  };
  Kind kind = Kind::done;  ///< what is to be done
  std::string line;        ///< claims the training
  int rung = 0;            ///< to be trained
  int attempt = 0;         ///< of this rung, from 0
  std::string key;         ///< of the network's genome
};

/// Trainings that were lost come first, then promotions, then new networks; of populations, new members come before
/// further intervals, and Budget::networks does not matter. `now`: seconds since 1970.
Job next_job(const Population& population, const Method& method, int slot, const Budget& budget, double now);

/// The network of this job, whose line the population has just applied as its latest, if the training belongs to this
/// worker. No value: another worker's line has come first. The number of a new network is known only then.
std::optional<std::int64_t> claimed(const Population& population, const Job& job, int slot);

}  // namespace keelson::search
