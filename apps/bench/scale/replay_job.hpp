#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/bench/scale/machine.hpp"

namespace keelson::bench {

/// How the ranks exchange gradients.
struct ExchangeSettings {
  std::string algorithm = "halving";  ///< see make_rounds
  std::size_t bucket_bytes = 0;       ///< 0: all gradients as one
  bool overlap = false;               ///< true: begin when a bucket is full; false: after the backward pass
  bool compress = false;              ///< 16 bits for each f32 on the wire
};

/// One simulation, which the program keelson-scale-replay reads as JSON.
struct ReplayJob {
  Machine machine;
  int ranks = 1, steps = 1;
  unsigned seed = 1;  ///< seed of the imbalance
  struct Bucket {
    std::size_t bytes = 0;  ///< of f32
    double ready = 0;       ///< seconds after the backward pass has begun
  };
  double forward = 0, backward = 0, update = 0;  ///< seconds
  std::vector<Bucket> buckets;
  ExchangeSettings exchange;
};

/// The result, which the program prints as JSON.
struct ReplayResult {
  double step = 0;                         ///< seconds of a step, mean
  double slowest = 0;                      ///< computing time of the slowest rank in a step, mean over steps
  double wire_bytes = 0;                   ///< bytes that a rank sends in a step, mean
  double messages = 0;                     ///< messages that a rank sends in a step, mean
  double wall_seconds = 0, megabytes = 0;  ///< time and memory that the simulation itself took
};

nlohmann::json json_of(const ReplayJob& job);
ReplayJob replay_job_of(const nlohmann::json& json);
nlohmann::json json_of(const ReplayResult& result);
ReplayResult replay_result_of(const nlohmann::json& json);

}  // namespace keelson::bench
