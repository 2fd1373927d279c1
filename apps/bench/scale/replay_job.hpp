#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/bench/scale/machine.hpp"

namespace keelson::bench {

/// How the ranks exchange gradients, and rows of samples.
struct ExchangeSettings {
  std::string algorithm = "halving";  ///< see make_rounds
  std::size_t bucket_bytes = 0;       ///< 0: all gradients as one
  bool overlap = false;               ///< true: begin when a bucket is full; false: after the backward pass
  bool compress = false;              ///< 16 bits for each f32 on the wire
  bool hide_rows = false;             ///< rows travel beside the part of the forward pass that does not need them
  bool copies = false;                ///< gradients and rows are copied as Machine::gradient_copies and row_copies say
};

/// What a rank does next.
struct RankEvent {
  enum class Kind {
    compute,  ///< computes for `seconds`; a slow rank takes longer
    busy,     ///< works for its messages for `seconds`
    send,     ///< starts a message
    receive,  ///< starts to wait for a message
    wait,     ///< waits for the message of the event with the number `index` among all that send and receive
    bucket,   ///< the gradients of the bucket `index` are complete
  };
  Kind kind = Kind::compute;
  double seconds = 0;
  int peer = 0;  ///< rank minus this rank
  std::size_t bytes = 0;
  int index = 0;
};

/// The step of a rank: forward and backward passes with their messages, then the update.
struct RankProgram {
  std::vector<RankEvent> events;
  std::vector<std::size_t> buckets;  ///< bytes of f32 of each gradient bucket
  double update = 0;                 ///< seconds

  double computing() const;  ///< seconds of computation, with the update
};

/// One simulation, which the program keelson-scale-replay reads as JSON.
struct ReplayJob {
  Machine machine;
  int ranks = 1, steps = 1;
  unsigned seed = 1;  ///< seed of the imbalance
  int stages = 1;     ///< the ranks of a stage are neighbours, and sum gradients
  /// For each stage, one program for each rank along space, which varies fastest.
  std::vector<RankProgram> programs;
  ExchangeSettings exchange;

  int stage_ranks() const { return ranks / stages; }
  const RankProgram& program_of(int rank) const;
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
