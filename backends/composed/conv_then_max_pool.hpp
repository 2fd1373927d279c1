#pragma once

#include "engine/ops/context.hpp"
#include "engine/ops/conv_max_pool.hpp"

namespace keelson::composed {

/// A convolution and then max pooling, with the convolution's result in scratch memory: the baseline for the other
/// candidates. Unsupported if the pooling does not keep argmax indices of one byte, which the gradients read.
ops::Expected<ops::ConvMaxPoolForward> make_conv_then_max_pool(const ops::ConvMaxPoolForwardDesc& desc,
                                                               Context& context);

}  // namespace keelson::composed
