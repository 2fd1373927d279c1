#pragma once

#include <cstdint>

namespace keelson::ops {

/// Scaling of gradients (Micikevicius et al., "Mixed precision training", 2018): the loss's gradient is multiplied by
/// `scale`, so that small gradients survive in f16, and Update divides by it again. Lives in the context's memory from
/// step to step, where CheckGradients changes it.
struct LossScale {
  float scale = 1;              ///< of the next gradients
  float unscale = 1;            ///< 1 / the scale of the gradients at hand
  std::int32_t good_steps = 0;  ///< since it last changed
  std::int32_t skip = 0;        ///< 1: gradients of the step at hand are not finite, and nothing may move
  std::int32_t skipped = 0;     ///< steps so far that were
};

/// What changes from step to step, read by kernels from the context's memory, so that a step is the same list of calls
/// each time. The host writes all but `scaling`, which it sets at the beginning only.
struct StepParams {
  std::uint64_t seed = 0;  ///< of the run
  std::uint64_t step = 0;  ///< optimizer steps done before this one
  std::int64_t sample_offset =
      0;  ///< this rank's first sample within the global batch: dropout masks depend on it, not on the rank
  float inverse_samples = 1;  ///< 1 / global sample count of the step: losses and gradients sum over ranks to the mean
  float learning_rate = 0;    ///< of this step
  LossScale scaling;          ///< changed on the device
};

}  // namespace keelson::ops
