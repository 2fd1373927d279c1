#pragma once

#include <cstdint>

namespace keelson::ops {

/// Scaling of gradients (Micikevicius et al., "Mixed precision training", 2018): the loss's gradient is multiplied by
/// `scale`, so that small gradients survive in f16, and the update divides by it again. Lives in the device's memory
/// from step to step, where CheckGradients changes it. Ops that are given none scale by 1 and skip no step.
struct LossScale {
  float scale = 1;              ///< of the next gradients
  float unscale = 1;            ///< 1 / the scale of the gradients at hand
  std::int32_t good_steps = 0;  ///< since it last changed
  std::int32_t skip = 0;        ///< 1: gradients of the step at hand are not finite, and nothing may move
  std::int32_t skipped = 0;     ///< steps so far that were
};

}  // namespace keelson::ops
