#include "backends/common/swapped_conv.hpp"

#include "backends/cuda/makers.hpp"
#include "backends/kokkos/norm/channels.hpp"

namespace keelson::cuda {

namespace {

/// cuDNN has no transposed convolution. PyTorch exchanges the operands of a convolution, too.
class TransposedConv final : public backends::SwappedConv {
 public:
  using SwappedConv::SwappedConv;

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    conv().backward_data({src, weights, dst, scratch});
    const auto channels = dst.shape()[1];
    if (has_epilogue())
      kokkos::add_bias_and_activate(dst.raw(), dst.dtype(), dst.shape().elements() / channels, channels,
                                    desc().params.bias ? bias.data<float>() : nullptr, desc().params.activation);
  }
};

}  // namespace

ops::Expected<ops::TransposedConv> make_transposed_conv(const LibraryPtr& library, const ops::TransposedConvDesc& d) {
  if (auto why = backends::transposed_conv_mismatch(d); !why.empty()) return why;
  auto conv = make_conv(library, ops::swapped_conv(d));
  if (!conv.primitive) return conv.unsupported_reason;
  ops::Expected<ops::TransposedConv> made(
      std::unique_ptr<ops::TransposedConv>(std::make_unique<TransposedConv>(d, std::move(conv.primitive))));
  made.remark = conv.remark;
  return made;
}

}  // namespace keelson::cuda
