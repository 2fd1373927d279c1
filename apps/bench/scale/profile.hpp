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
  /// A call of the forward or the backward pass.
  struct Call {
    std::string node;
    bool backward = false;
    bool of_weights = false;         ///< makes gradients of parameters, and no gradient that another node reads
    double seconds = 0;              ///< for all samples of the step
    double least = 0;                ///< seconds that the call takes for ever fewer rows: it passes over the parameters
    double exponent = 1;             ///< a part of the work takes this power of the part of the time
    std::size_t gradient_bytes = 0;  ///< of the gradients that this call completes

    /// Seconds for a part of the rows or samples. `overhead`: the least seconds of any call.
    double on_part(double share, double overhead) const;
  };
  std::string title;        ///< "mlperf 128^3, batch 1 a rank, fp32"
  std::string net, size;    ///< as the options of keelson-bench step; size is empty for networks of one size
  double cells = 0;         ///< of a sample; 0: the network has samples of one size
  double batch = 1;         ///< samples of the step
  std::vector<Call> calls;  ///< in order
  double forward = 0, backward = 0, update = 0;
  double gflop = 0;                 ///< 10^9 FLOP of the step, as executed
  std::vector<Gradient> gradients;  ///< in the order in which they are ready

  double seconds() const { return forward + backward + update; }
  std::size_t gradient_bytes() const;
  /// The same step, `factor` times as long.
  StepProfile slower(double factor) const;
  /// The step with `factor` times as many samples: the time of the update stays the same.
  StepProfile with_samples(double factor) const;
  /// The step, knowing the same step of smaller samples: how much less time each node takes for less work gives the
  /// exponents of its calls. Small problems are computed less efficiently than large ones, and part of the work
  /// (reading parameters, say) does not shrink at all. Throws InputError if `smaller` is no step of smaller samples.
  StepProfile with_smaller(const StepProfile& smaller) const;
  /// The gradients in buckets as in a plan: a bucket ends with the gradient with which it reaches `bucket_bytes`. 0:
  /// one bucket.
  std::vector<Gradient> buckets(std::size_t bucket_bytes) const;
};

/// Makes a profile from the calls of a step with their milliseconds. `copy_bandwidth`: bytes/s, read and written, of
/// the machine that measured them; 0: unknown. Throws InputError if no call makes a gradient.
StepProfile profile_of(const std::vector<PlanRow>& rows, const std::string& title, double copy_bandwidth = 0);

/// Reads the output of `keelson-bench step --plan --json`. Throws InputError, naming the file.
StepProfile read_profile(const std::string& file);

}  // namespace keelson::bench
