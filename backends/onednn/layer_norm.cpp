#include <algorithm>

#include "backends/onednn/support.hpp"
#include "engine/ops/group_norm.hpp"

namespace keelson::onednn {
namespace {

using dnnl::layer_normalization_backward;
using dnnl::layer_normalization_forward;
using ops::Role;
using ops::Verb;

const auto layer_norm_flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

/// One group of rows: oneDNN's layer normalization. One primitive makes all gradients: backward_data() and
/// backward_weights() leave in scratch memory what they are not asked for. (oneDNN 3.12 has no gradient of src alone if
/// there is a scale.) ops::Role::diff_sums gets zeros, which nobody reads.
class LayerNorm final : public CallPrimitive<ops::GroupNorm> {
 public:
  LayerNorm(const LibraryPtr& library, const ops::GroupNormDesc& d) : d_(d) {
    const auto md = to_desc(d.src), channels = to_desc(d.channel_desc()),
               rows = to_desc(TensorDesc::plain({d.src.shape[0]}));
    const auto& engine = library->engine;
    const auto elements = static_cast<double>(d.src.elements());
    const layer_normalization_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training, md, md, rows,
                                                              d.epsilon, layer_norm_flags, attributes());
    require_fast(forward, Verb::forward);
    forward_call() = Call::make<layer_normalization_forward>(library, forward, 8 * elements);
    forward_call()
        .bind(Role::src, DNNL_ARG_SRC, md, d.src)
        .bind(Role::weights, DNNL_ARG_SCALE, channels, d.channel_desc())
        .bind(Role::bias, DNNL_ARG_SHIFT, channels, d.channel_desc())
        .bind(Role::dst, DNNL_ARG_DST, md, d.src)
        .bind(Role::mean, DNNL_ARG_MEAN, rows, d.group_desc())
        .bind(Role::variance, DNNL_ARG_VARIANCE, rows, d.group_desc());

    const layer_normalization_backward::primitive_desc backward(engine, dnnl::prop_kind::backward, md, md, md, rows,
                                                                d.epsilon, layer_norm_flags, forward, attributes());
    require_fast(backward, Verb::backward_weights);
    for (Call* const call : {&data_call(), &weights_call()}) {
      *call = Call::make<layer_normalization_backward>(library, backward, 12 * elements);
      call->bind(Role::diff_dst, DNNL_ARG_DIFF_DST, md, d.src)
          .bind(Role::src, DNNL_ARG_SRC, md, d.src)
          .bind(Role::weights, DNNL_ARG_SCALE, channels, d.channel_desc())
          .bind(Role::mean, DNNL_ARG_MEAN, rows, d.group_desc())
          .bind(Role::variance, DNNL_ARG_VARIANCE, rows, d.group_desc())
          .bind(Role::diff_weights, DNNL_ARG_DIFF_SCALE, channels, d.channel_desc())
          .bind(Role::diff_bias, DNNL_ARG_DIFF_SHIFT, channels, d.channel_desc())
          .bind(Role::diff_src, DNNL_ARG_DIFF_SRC, md, d.src);
    }
  }

  std::size_t scratch_bytes(Verb v) const override {
    return align64(CallPrimitive::scratch_bytes(v)) + (v == Verb::backward_data      ? 2 * channel_bytes()
                                                       : v == Verb::backward_weights ? d_.src.bytes()
                                                                                     : 0);
  }
  Layout layout(Verb v, Role r) const override {
    return r == Role::diff_sums ? d_.diff_sums_desc().layout : CallPrimitive::layout(v, r);
  }
  bool joins_backward() const override { return true; }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, scale, shift, dst, mean, variance, scratch] = args;
    forward_call().run({&src, &scale, &shift, &dst, &mean, &variance}, &scratch);
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [diff_dst, src, scale, mean, variance, diff_scale, diff_shift, sums, diff_src, scratch] = args;
    std::fill_n(sums.data<float>(), sums.elements(), 0.0f);
    const Tensor unwanted(d_.src, behind_scratch(Verb::backward_weights, scratch));
    const Tensor* const whole = diff_src ? &diff_src : &unwanted;
    weights_call().run({&diff_dst, &src, &scale, &mean, &variance, &diff_scale, &diff_shift, whole}, &scratch);
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, src, scale, mean, variance, sums, diff_src, scratch] = args;
    std::byte* const unwanted = behind_scratch(Verb::backward_data, scratch);
    const Tensor diff_scale(d_.channel_desc(), unwanted), diff_shift(d_.channel_desc(), unwanted + channel_bytes());
    data_call().run({&diff_dst, &src, &scale, &mean, &variance, &diff_scale, &diff_shift, &diff_src}, &scratch);
  }

 private:
  std::size_t channel_bytes() const { return align64(d_.channel_desc().bytes()); }
  /// Behind the part of `scratch` that oneDNN uses.
  std::byte* behind_scratch(Verb v, const Tensor& scratch) const {
    return static_cast<std::byte*>(scratch.raw()) + align64(CallPrimitive::scratch_bytes(v));
  }

  ops::GroupNormDesc d_;
};

}  // namespace

std::unique_ptr<ops::GroupNorm> make_layer_norm(const LibraryPtr& library, const ops::GroupNormDesc& d) {
  if (d.groups != 1 || d.src.shape.rank() != 2)
    decline("oneDNN's group normalization is slower: its backward pass is the reference implementation");
  if (d.src.elements() == 0) decline("no values");
  if (!d.src.layout.is_plain(d.src.shape)) decline("rows that are not plain");
  return std::make_unique<LayerNorm>(library, d);
}

}  // namespace keelson::onednn
