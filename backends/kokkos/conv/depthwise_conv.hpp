#pragma once

#include "engine/ops/conv.hpp"
#include "engine/ops/factory.hpp"

/// Depthwise convolution: every channel has one filter of its own.
namespace keelson::kokkos {

/// f32, channels-last tensors, weights as (kernel..., C). Declines what is not depthwise.
ops::Expected<ops::Conv> make_depthwise_conv(const ops::ConvDesc& d);

}  // namespace keelson::kokkos
