#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace keelson::bench {

/// A training step of one rank without its exchange: the seconds of its parts, and when each gradient is complete.
struct StepProfile {
  struct Gradient {
    std::size_t bytes = 0;  ///< of f32
    double ready = 0;       ///< seconds after the backward pass has begun
  };
  std::string title;  ///< "mlperf 128^3, batch 1 a rank, fp32"
  double forward = 0, backward = 0, update = 0;
  double gflop = 0;                 ///< 10^9 FLOP of the step, as executed
  std::vector<Gradient> gradients;  ///< in the order in which they are ready

  double seconds() const { return forward + backward + update; }
  std::size_t gradient_bytes() const;
  /// The same step, `factor` times as long.
  StepProfile slower(double factor) const;
  /// The step with `factor` times as many samples: the time of the update stays the same.
  StepProfile with_samples(double factor) const;
  /// The gradients in buckets as in a plan: a bucket ends with the gradient with which it reaches `bucket_bytes`. 0:
  /// one bucket.
  std::vector<Gradient> buckets(std::size_t bucket_bytes) const;
};

/// Makes a profile from the calls of a step with their milliseconds. Throws InputError if no call makes a gradient.
StepProfile profile_of(const std::vector<PlanRow>& rows, const std::string& title);

/// Reads the output of `keelson-bench step --plan --json`. Throws InputError, naming the file.
StepProfile read_profile(const std::string& file);

}  // namespace keelson::bench
