#pragma once

#include <cstdint>

namespace keelson::ops {

/// What changes from step to step, read by kernels from the context's memory, so that a step is the same list of calls
/// each time.
struct StepState {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< optimizer steps done before this one
  std::int64_t sample_offset =
      0;  ///< this rank's first sample within the global batch: dropout masks depend on it, not on the rank
  float loss_scale = 1;  ///< 1 / global sample count of the step: losses and gradients sum over ranks to the mean
  float learning_rate = 0;
};

}  // namespace keelson::ops
