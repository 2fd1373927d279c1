#include "engine/ops/conv.hpp"
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

}  // namespace

std::unique_ptr<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  const int spatial = d.src.shape.rank() - 2;
  if (spatial < 1 || spatial > 3) decline("{} spatial dims; oneDNN convolves over 1 to 3", spatial);
  return std::make_unique<Conv>(library, d);
}

}  // namespace keelson::onednn
