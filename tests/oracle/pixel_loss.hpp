#pragma once

#include "engine/ops/pixel_loss.hpp"
#include "tests/oracle/array.hpp"

namespace keelson::oracle {

/// The cross entropy of pixels, by the formula of engine/ops/pixel_loss.hpp, and its gradient times `scale`.
struct PixelLossResult {
  double loss = 0;
  Array diff;  ///< as x
};
PixelLossResult pixel_loss(const Array& x, const Array& target, const Array& weight, const ops::PixelLossDesc& d,
                           const ops::StepParams& now, double scale = 1);

}  // namespace keelson::oracle
