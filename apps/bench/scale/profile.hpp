#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace keelson::bench {

/// A training step of one rank without its exchange, in seconds: how long its parts take, and when which gradients are
/// whole.
struct StepProfile {
  struct Gradient {
    std::size_t bytes = 0;  ///< of f32
    double ready = 0;       ///< seconds after the begin of the backward pass
  };
  std::string title;  ///< "mlperf 128^3, batch 1 a rank, fp32"
  double forward = 0, backward = 0, update = 0;
  double gflop = 0;                 ///< 10^9 FLOP of the step, as executed
  std::vector<Gradient> gradients;  ///< in the order in which they are ready

  double seconds() const { return forward + backward + update; }
  std::size_t gradient_bytes() const;
  /// With everything `factor` times as long.
  StepProfile slower(double factor) const;
  /// With `factor` times the samples: the update takes as long as before.
  StepProfile with_samples(double factor) const;
  /// Gradients in buckets as the plan cuts them: the last gradient of a bucket is the one that makes `bucket_bytes`
  /// full. 0: all in one.
  std::vector<Gradient> buckets(std::size_t bucket_bytes) const;
};

/// From the calls of a step, with their milliseconds. Throws InputError if no call makes a gradient.
StepProfile profile_of(const std::vector<PlanRow>& rows, const std::string& title);

/// From what `keelson-bench step --plan --json` printed. Throws InputError, naming the file.
StepProfile read_profile(const std::string& file);

}  // namespace keelson::bench
