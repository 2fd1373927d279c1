#include "backends/common/swapped_conv.hpp"
#include "backends/onednn/support.hpp"
#include "engine/ops/context.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;
using ops::Verb;

/// oneDNN's deconvolution runs the same kernels (3.12, Zen 5: within 2 % of the convolution's speed), but has fewer
/// post-ops and needs weights with the first two dims exchanged.
class TransposedConv final : public backends::SwappedConv {
 public:
  TransposedConv(const LibraryPtr& library, const ops::TransposedConvDesc& d, std::unique_ptr<ops::Conv> conv)
      : SwappedConv(d, std::move(conv)) {
    if (!has_epilogue()) return;
    const TensorDesc dst{d.dst.shape, d.dst.dtype, layout(Verb::forward, Role::dst)};
    const auto md = to_desc(dst);
    if (d.params.bias)
      bind_bias(library, dst, md);
    else
      bind_activation(library, dst, md);
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    conv().backward_data({src, weights, dst, scratch});
    if (desc().params.bias)
      epilogue_.run({&dst, &bias, &dst});
    else if (has_epilogue())
      epilogue_.run({&dst, &dst});
  }

 private:
  /// dst = activation(dst + bias), in place.
  void bind_bias(const LibraryPtr& library, const TensorDesc& dst, const dnnl::memory::desc& md) {
    Shape one = Shape::filled(dst.shape.rank(), 1);
    one[1] = dst.shape[1];
    const auto bias_md = to_desc(TensorDesc::plain(one));
    const dnnl::binary::primitive_desc pd(library->engine, dnnl::algorithm::binary_add, md, bias_md, md,
                                          attributes(desc().params.activation));
    require_fast(pd, Verb::forward, dst.layout.is_opaque());
    epilogue_ = Call::make<dnnl::binary>(library, pd, static_cast<double>(dst.elements()));
    epilogue_.bind(Role::src, DNNL_ARG_SRC_0, md, dst)
        .bind(Role::bias, DNNL_ARG_SRC_1, bias_md, TensorDesc::plain({dst.shape[1]}))
        .bind(Role::dst, DNNL_ARG_DST, md, dst)
        .own_scratch();
  }

  void bind_activation(const LibraryPtr& library, const TensorDesc& dst, const dnnl::memory::desc& md) {
    const auto a = forward_algorithm(desc().params.activation);
    const dnnl::eltwise_forward::primitive_desc pd(library->engine, dnnl::prop_kind::forward_inference, a.algorithm, md,
                                                   md, a.alpha, a.beta, attributes());
    require_fast(pd, Verb::forward, dst.layout.is_opaque());
    epilogue_ = Call::make<dnnl::eltwise_forward>(library, pd, static_cast<double>(dst.elements()));
    epilogue_.bind(Role::src, DNNL_ARG_SRC, md, dst).bind(Role::dst, DNNL_ARG_DST, md, dst).own_scratch();
  }

  Call epilogue_;
};

}  // namespace

std::unique_ptr<ops::TransposedConv> make_transposed_conv(const LibraryPtr& library, const ops::TransposedConvDesc& d,
                                                          Context& context) {
  if (auto why = backends::transposed_conv_mismatch(d); !why.empty()) decline("{}", why);
  const auto make_conv = [&](const ops::ConvDesc& c) {
    std::string why;
    auto conv = context.try_make(c, &why);
    if (!conv) decline("there is no such convolution: {}", why);
    return conv;
  };
  const ops::ConvDesc swapped = ops::swapped_conv(d);
  auto conv = make_conv(swapped);
  // oneDNN adds a bias to blocked values only slowly.
  if (d.params.bias && d.dst.layout.is_any() && conv->layout(Verb::backward_data, Role::diff_src).is_opaque()) {
    ops::ConvDesc last = swapped;
    last.src.layout = Layout::channels_last(d.dst.shape);
    conv = make_conv(last);
  }
  return std::make_unique<TransposedConv>(library, d, std::move(conv));
}

}  // namespace keelson::onednn
