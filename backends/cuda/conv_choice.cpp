#include <algorithm>

#include "backends/cuda/makers.hpp"
#include "backends/kokkos/conv/gemm_conv.hpp"
#ifdef KEELSON_HAVE_CUDNN
#include "backends/cuda/cudnn_conv.hpp"
#endif

/// Chooses the convolution of this backend for a description. This file is always compiled; the files that use cuDNN
/// are not.
namespace keelson::cuda {

namespace {

/// By matrix products of cuBLASLt: takes every convolution, but copies every window (im2col).
ops::Expected<ops::Conv> by_products(const LibraryPtr& library, const ops::ConvDesc& d,
                                     const std::string& why_not_better) {
  const auto limit = std::min(workspace_limit(*library), std::size_t{256} << 20);
  auto made = kokkos::make_gemm_conv(d, [&](const ops::MatMulDesc& m) { return make_matmul(library, m); }, limit);
  if (made.primitive)
    made.remark = "convolutions are computed as matrix products, which is slower than cuDNN: " + why_not_better;
  else
    made.unsupported_reason = why_not_better + "; " + made.unsupported_reason;
  return made;
}

}  // namespace

#ifdef KEELSON_HAVE_CUDNN

ops::Expected<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  auto made = make_cudnn_conv(library, d);
  if (!made.primitive) return by_products(library, d, made.unsupported_reason);
  made.primitive = with_depthwise_kernels(library, d, std::move(made.primitive));
  return made;
}

#else

ops::Expected<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  return by_products(library, d, "this build has no cuDNN");
}

#endif

}  // namespace keelson::cuda
