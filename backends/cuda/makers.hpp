#pragma once

#include "backends/cuda/session.hpp"

/// One maker per op; each is defined in the file of its op and returns the primitive or the reason why there is none.
namespace keelson::cuda {

ops::Made<ops::Conv> make_conv(const SessionPtr& session, const ops::ConvDesc& d);
ops::Made<ops::Dense> make_dense(const SessionPtr& session, const ops::DenseDesc& d);
ops::Made<ops::MatMul> make_matmul(const SessionPtr& session, const ops::MatMulDesc& d);

}  // namespace keelson::cuda
