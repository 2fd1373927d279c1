#pragma once

#include "backends/onednn/support.hpp"

namespace keelson::onednn {

/// Max pooling of f32 by loops of our own, for layouts in which neighbouring channels are contiguous (channels-last and
/// oneDNN's nC...16c). oneDNN's own kernels compare with NaN and keep the other value: a network that has diverged
/// would go on with -3.4e38 in its place. `dst` is the description's with the layout that oneDNN's pooling gives it.
/// Declines other layouts.
std::unique_ptr<ops::Pool> make_max_pool(const ops::PoolDesc& d, const dnnl::memory::desc& src,
                                         const dnnl::memory::desc& dst);

}  // namespace keelson::onednn
