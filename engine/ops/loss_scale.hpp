#pragma once

#include <cstdint>

namespace keelson::ops {

/// Scaling of gradients (Micikevicius et al., "Mixed precision training", 2018): the loss's gradient is multiplied by
/// `scale`, so that small gradients are not rounded to 0 in f16, and the update divides by it again. The struct stays
/// in the device's memory, where CheckGradients changes it. Ops without this operand scale by 1 and skip no step.
struct LossScale {
  float scale = 1;              ///< scale of the next gradients
  float unscale = 1;            ///< 1 / the scale of the present gradients
  std::int32_t good_steps = 0;  ///< steps with finite gradients since the scale last changed
  std::int32_t skip = 0;        ///< 1: gradients of the present step are not finite, and nothing may be updated
  std::int32_t skipped = 0;     ///< number of steps skipped so far
};

}  // namespace keelson::ops
