#include "engine/ops/conv.hpp"

#include <algorithm>

#include "backends/onednn/conv_implementations.hpp"

namespace keelson::onednn {
namespace {

class Conv final : public Weighted<ops::ConvDesc, ConvKinds> {
 public:
  Conv(const LibraryPtr& library, const ops::ConvDesc& d) : Weighted(library, d, ops::conv_flops(d), d.params.groups) {
    const ConvDescriptors make(library, d);
    build([&](const Operands& o) { return make.forward(o); },
          [&](const Operands& o, const auto& forward) { return make.backward_data(o, forward); },
          [&](const Operands& o, const auto& forward) { return make.backward_weights(o, forward); });
  }
};

/// oneDNN (3.12) has no kernels for the gradients of a dilated depthwise convolution: it computes a product for each
/// channel, which takes ten times as long as the Kokkos backend's loops.
bool slow_gradients(const ops::ConvDesc& d) {
  const auto channels = d.src.shape[1];
  const bool depthwise = d.params.groups == channels && d.dst.shape[1] == channels && channels > 1;
  const bool dilated = std::any_of(d.params.dilation.begin(), d.params.dilation.end(), [](auto x) { return x > 1; });
  return d.training && depthwise && dilated && d.src.dtype == DType::f32;
}

/// For the gradient of the weights of volumes of one to three channels, oneDNN (3.12) has no kernel for AVX2 but
/// products of plain matrices ("gemm"): for 2 x 1 x 64^3, 16 filters, 1057 ms instead of the Kokkos backend's 42 ms
/// (Zen 3). They also make a max pooling behind the convolution read plain tensors.
bool slow_gradient_of_weights(const ops::ConvDesc& d, const ops::Conv& conv) {
  constexpr std::int64_t few = 3;
  return d.training && d.diff_weights && d.src.shape.rank() == 5 && d.src.shape[1] <= few &&
         d.src.dtype == DType::f32 && conv.name(ops::Verb::backward_weights).find("gemm") != std::string::npos;
}

/// Without AVX-512, oneDNN (3.12) has no forward kernel for images and volumes of one to three channels, unless it may
/// choose the layout of src or, for images, the number of filters is a multiple of 8: it multiplies plain matrices
/// ("gemm"), images at 1 to 2 GFLOP/s (100 x 1 x 127 x 50, 12 filters of 8 x 3, Zen 3), volumes at 8 (1 x 1 x 128^3, 16
/// filters of 3^3). What follows then reads plain tensors, a max pooling at a tenth of the speed. Not of the
/// convolution in a transposed one (swapped_conv), whose forward is not used: that one has no bias.
bool slow_forward(const ops::ConvDesc& d, const ops::Conv& conv) {
  constexpr std::int64_t few = 3;
  return d.params.bias && d.src.shape.rank() >= 4 && d.src.shape[1] <= few && d.src.dtype == DType::f32 &&
         conv.name(ops::Verb::forward).find("gemm") != std::string::npos;
}

}  // namespace

std::unique_ptr<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  const int spatial = d.src.shape.rank() - 2;
  if (spatial < 1 || spatial > 3) decline("{} spatial dims; oneDNN convolves over 1 to 3", spatial);
  if (slow_gradients(d)) decline("oneDNN's gradients of dilated depthwise convolutions are slow");
  auto conv = std::make_unique<Conv>(library, d);
  if (slow_gradient_of_weights(d, *conv))
    decline("oneDNN's products of plain matrices do not pay for the gradient of the weights");
  if (slow_forward(d, *conv)) decline("oneDNN's products of plain matrices do not pay for few channels");
  return conv;
}

}  // namespace keelson::onednn
