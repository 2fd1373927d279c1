#pragma once

#include <cstdint>

namespace keelson::ops {

/// The values that change from step to step. The host writes them, and kernels read them from the device's memory, so
/// that each step is the same list of calls.
struct StepParams {
  std::uint64_t seed = 0;  ///< seed of the run
  std::uint64_t step = 0;  ///< optimizer steps done before this one
  std::int64_t sample_offset =
      0;  ///< this rank's first sample within the global batch: dropout masks depend on it, not on the rank
  float inverse_samples =
      1;  ///< 1 / global sample count of the step, so that the sum over ranks of losses and gradients is the mean
  float learning_rate = 0;  ///< learning rate of this step
  /// The weight of this step's point in a mean over all steps so far (UpdateKind::schedule_free): its squared learning
  /// rate over the sum of the squared learning rates. 0: 1 / (step + 1), as with a constant rate, or no
  /// weight if the rate is 0.
  float averaging_weight = 0;
};

}  // namespace keelson::ops
