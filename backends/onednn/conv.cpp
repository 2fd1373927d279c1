#include "engine/ops/conv.hpp"

#include <algorithm>

#include "backends/onednn/weighted.hpp"

namespace keelson::onednn {
namespace {

struct ConvKinds {
  using Forward = dnnl::convolution_forward;
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
};

class Conv final : public Weighted<ops::ConvDesc, ConvKinds> {
 public:
  Conv(const LibraryPtr& library, const ops::ConvDesc& d) : Weighted(library, d, ops::conv_flops(d), d.params.groups) {
    const auto stride = to_dims(d.params.stride);
    const auto begin = to_dims(d.params.pad_begin), end = to_dims(d.params.pad_end);
    auto gaps = to_dims(d.params.dilation);  // oneDNN counts the gaps between taps
    for (auto& g : gaps) --g;
    // Direct, not Winograd, which loses accuracy.
    const auto direct = dnnl::algorithm::convolution_direct;
    build(
        [&](const Operands& o) {
          return ConvKinds::Forward::primitive_desc(library->engine, forward_kind(), direct, o.src, o.weights, bias_,
                                                    o.dst, stride, gaps, begin, end, attributes(d.params.activation));
        },
        [&](const Operands& o, const auto& forward) {
          return ConvKinds::BackwardData::primitive_desc(library->engine, direct, o.src, o.weights, o.dst, stride, gaps,
                                                         begin, end, forward, attributes(), true);
        },
        [&](const Operands& o, const auto& forward) {
          return ConvKinds::BackwardWeights::primitive_desc(library->engine, direct, o.src, o.weights, diff_bias_,
                                                            o.dst, stride, gaps, begin, end, forward, attributes(),
                                                            true);
        });
  }
};

/// oneDNN (3.12) has no kernels for the gradients of a dilated depthwise convolution: it makes a product of each
/// channel, which takes ten times as long as the Kokkos backend's loops.
bool slow_gradients(const ops::ConvDesc& d) {
  const auto channels = d.src.shape[1];
  const bool depthwise = d.params.groups == channels && d.dst.shape[1] == channels && channels > 1;
  const bool dilated = std::any_of(d.params.dilation.begin(), d.params.dilation.end(), [](auto x) { return x > 1; });
  return d.training && depthwise && dilated && d.src.dtype == DType::f32;
}

}  // namespace

std::unique_ptr<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  const int spatial = d.src.shape.rank() - 2;
  if (spatial < 1 || spatial > 3) decline("{} spatial dims; oneDNN convolves over 1 to 3", spatial);
  if (slow_gradients(d)) decline("oneDNN's gradients of dilated depthwise convolutions are slow");
  return std::make_unique<Conv>(library, d);
}

}  // namespace keelson::onednn
