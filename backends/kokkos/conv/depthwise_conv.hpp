#pragma once

#include "engine/ops/conv.hpp"
#include "engine/ops/factory.hpp"

/// Depthwise convolution: every channel has its own filter.
namespace keelson::kokkos {

/// f32, channels-last tensors, weights as (kernel..., C). Declines other convolutions.
ops::Expected<ops::Conv> make_depthwise_conv(const ops::ConvDesc& d);

}  // namespace keelson::kokkos
