#pragma once

#include "engine/ops/context.hpp"
#include "engine/ops/conv_max_pool.hpp"

namespace keelson::composed {

/// A convolution and max pooling one after the other, with the result between them in scratch memory: what the others
/// are measured against. Unsupported where the pooling keeps no argmax indices of one byte, which the gradients read.
ops::Expected<ops::ConvMaxPoolForward> make_conv_then_max_pool(const ops::ConvMaxPoolForwardDesc& desc,
                                                               Context& context);

}  // namespace keelson::composed
