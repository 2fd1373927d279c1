#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/detail/depth_tiled_conv.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/device.hpp"
#include "engine/ops/factory.hpp"

/// Which of several ways makes a convolution on a CPU: the fastest in a measurement (Device::chooser()), or that of a
/// rule of thumb.
namespace keelson::kokkos {

/// A way to make one verb of a convolution.
struct ConvWay {
  ops::Verb verb;                                    ///< the only one that callers ask of it
  std::string name;                                  ///< what `make()` calls the verb
  std::function<std::shared_ptr<ops::Conv>()> make;  ///< called where the way is timed or chosen
};

/// The verbs that `d` asks for, by `conv`.
std::vector<ConvWay> ways_by(std::shared_ptr<ops::Conv> conv, const ops::ConvDesc& d);

/// `direct`, or a primitive that makes each verb the fastest way: `direct`, Winograd's algorithms, or one of `further`,
/// which compute the same for channels-last src and dst. Of ways with the same name for a verb the first one counts.
/// Only f32 and bf16 convolutions with channels last are looked at.
std::unique_ptr<ops::Conv> fastest_conv(std::unique_ptr<ops::Conv> direct, const ops::ConvDesc& desc,
                                        const std::vector<ConvWay>& further, Device& device);

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
