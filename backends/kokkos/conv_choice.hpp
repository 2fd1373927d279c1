#pragma once

#include <memory>

#include "backends/detail/depth_tiled_conv.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/device.hpp"
#include "engine/ops/factory.hpp"

/// Which of several ways makes a convolution on a CPU: the fastest in a measurement (Device::chooser()), or that of a
/// rule of thumb.
namespace keelson::kokkos {

/// `direct`, or a primitive that makes each verb the fastest way: `direct`, Winograd's algorithms, or `other`, which
/// computes the same for channels-last tensors (may be null). Only convolutions with channels last are looked at.
std::unique_ptr<ops::Conv> fastest_conv(std::unique_ptr<ops::Conv> direct, const ops::ConvDesc& desc,
                                        std::unique_ptr<ops::Conv> other, Device& device);

/// A convolution and max pooling in one call: depth tiles of the makers' primitives, Winograd's algorithms, or
/// the makers' primitives for the whole one after the other.
ops::Expected<ops::ConvMaxPoolForward> fastest_conv_max_pool(const ops::ConvMaxPoolForwardDesc& desc,
                                                             const backends::TileMakers& makers, Device& device);

/// The gradient of a convolution behind max pooling: from the argmax indices, by Winograd's algorithms, whose tiles are
/// made from these, or by the makers' dense convolutions of unpooled planes. By rule of thumb from the indices.
ops::Expected<ops::ConvMaxPoolBackward> fastest_conv_max_pool_backward(const ops::ConvMaxPoolDesc& desc,
                                                                       const backends::TileMakers& makers,
                                                                       Device& device);

}  // namespace keelson::kokkos
