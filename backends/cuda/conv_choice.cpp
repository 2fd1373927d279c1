#include <algorithm>

#include "backends/cuda/makers.hpp"
#include "backends/kokkos/gemm_conv.hpp"
#ifdef KEELSON_HAVE_CUDNN
#include "backends/cuda/cudnn_conv.hpp"
#endif

/// Which of this backend's convolutions takes a description. Always compiled; the files of cuDNN are not.
namespace keelson::cuda {

namespace {

/// By matrix products of cuBLASLt: complete, but it writes out every window.
ops::Made<ops::Conv> by_products(const SessionPtr& session, const ops::ConvDesc& d, const std::string& why_not_better) {
  const auto limit = std::min(workspace_limit(*session), std::size_t{256} << 20);
  auto made = kokkos::make_gemm_conv(d, [&](const ops::MatMulDesc& m) { return make_matmul(session, m); }, limit);
  if (!made.primitive) made.declined = why_not_better + "; " + made.declined;
  return made;
}

}  // namespace

#ifdef KEELSON_HAVE_CUDNN

ops::Made<ops::Conv> make_conv(const SessionPtr& session, const ops::ConvDesc& d) {
  auto made = make_cudnn_conv(session, d);
  return made.primitive ? std::move(made) : by_products(session, d, made.declined);
}

#else

ops::Made<ops::Conv> make_conv(const SessionPtr& session, const ops::ConvDesc& d) {
  return by_products(session, d, "this build has no cuDNN");
}

#endif

}  // namespace keelson::cuda
