#pragma once

#include <cstdint>

namespace keelson::ops {

/// What changes from step to step, written by the host and read by kernels from the device's memory, so that a step is
/// the same list of calls each time.
struct StepParams {
  std::uint64_t seed = 0;  ///< of the run
  std::uint64_t step = 0;  ///< optimizer steps done before this one
  std::int64_t sample_offset =
      0;  ///< this rank's first sample within the global batch: dropout masks depend on it, not on the rank
  float inverse_samples = 1;  ///< 1 / global sample count of the step: losses and gradients sum over ranks to the mean
  float learning_rate = 0;    ///< of this step
};

}  // namespace keelson::ops
