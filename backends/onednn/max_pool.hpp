#pragma once

#include "backends/onednn/support.hpp"

namespace keelson::onednn {

/// Max pooling of f32 by our own loops, for layouts with contiguous neighbouring channels (channels-last and oneDNN's
/// nC...16c). oneDNN's kernels lose NaN: a network that has diverged would go on with -3.4e38 instead. `dst` is the
/// description's dst with the layout of oneDNN's pooling. Declines other layouts.
std::unique_ptr<ops::Pool> make_max_pool(const ops::PoolDesc& d, const dnnl::memory::desc& src,
                                         const dnnl::memory::desc& dst);

}  // namespace keelson::onednn
