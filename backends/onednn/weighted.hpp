#pragma once

#include "backends/onednn/support.hpp"

namespace keelson::backends::onednn {

/// Descriptors of the three operands whose layouts are chosen.
struct Operands {
  dnnl::memory::desc src, weights, dst;
};

/// What convolution and dense have in common: src, weights and bias to dst, and the three verbs. `Kinds` names oneDNN's primitives:
/// Forward, BackwardData, BackwardWeights.
template <class Desc, class Kinds>
class Weighted : public CallPrimitive<typename Desc::Op> {
 public:
  void forward(const Tensor& src, const Tensor& weights, const Tensor& bias, const Tensor& dst,
               const Tensor& scratch) override {
    run(this->forward_call(), src, weights, dst, bias, scratch);
  }
  void backward_data(const Tensor& diff_dst, const Tensor& weights, const Tensor& diff_src,
                     const Tensor& scratch) override {
    this->data_call().run({&diff_dst, &weights, &diff_src}, &scratch);
  }
  void backward_weights(const Tensor& src, const Tensor& diff_dst, const Tensor& diff_weights, const Tensor& diff_bias,
                        const Tensor& scratch) override {
    run(this->weights_call(), src, diff_dst, diff_weights, diff_bias, scratch);
  }

 protected:
  using Role = ops::Role;
  using Verb = ops::Verb;

  Weighted(const SessionPtr& session, const Desc& d, double flops, std::int64_t groups)
      : session_(session), d_(d), flops_(flops), bias_tensor_(TensorDesc::plain({d.dst.shape[1]})) {
    given_ = {to_desc(d.src), to_desc(d.weights, groups), to_desc(d.dst)};
    if (d.params.bias) bias_ = to_desc(bias_tensor_);
  }

  /// The makers get Operands (and forward's descriptor as a hint) and return oneDNN's primitive descriptor, empty where there is none.
  template <class MakeForward, class MakeData, class MakeWeights>
  void build(const MakeForward& make_forward, const MakeData& make_data, const MakeWeights& make_weights) {
    const typename Kinds::Forward::primitive_desc forward = make_forward(given_);
    bind_forward(forward);
    if (!d_.training) return;
    // Gradients in forward's layouts need no reorders, but blocked weights often suit one direction only; last, all that was `any`.
    const std::vector<Operands> candidates = {{forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
                                              {forward.src_desc(), given_.weights, forward.dst_desc()},
                                              given_};
    if (d_.diff_src)
      bind_data(choose<typename Kinds::BackwardData::primitive_desc>(
          candidates, [&](const Operands& o) { return make_data(o, forward); }));
    bind_weights(choose<typename Kinds::BackwardWeights::primitive_desc>(
        candidates, [&](const Operands& o) { return make_weights(o, forward); }));
  }

  dnnl::prop_kind forward_kind() const {
    return d_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  }

  SessionPtr session_;
  Desc d_;
  double flops_;
  TensorDesc bias_tensor_;
  dnnl::memory::desc bias_;  ///< zero where there is no bias
  Operands given_;

 private:
  void run(Call& call, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& bias, const Tensor& scratch) {
    if (d_.params.bias)
      call.run({&a, &b, &c, &bias}, &scratch);
    else
      call.run({&a, &b, &c}, &scratch);
  }

  void bind(Call& call, Role role, int argument, const dnnl::memory::desc& md, const TensorDesc& d) {
    call.bind(role, argument, md, d.with(to_layout(md, d.shape)));
  }

  void bind_forward(const typename Kinds::Forward::primitive_desc& pd) {
    require_fast(pd, Verb::forward);
    auto& call = this->forward_call() = Call::make<typename Kinds::Forward>(session_, pd, flops_);
    bind(call, Role::src, DNNL_ARG_SRC, pd.src_desc(), d_.src);
    bind(call, Role::weights, DNNL_ARG_WEIGHTS, pd.weights_desc(), d_.weights);
    bind(call, Role::dst, DNNL_ARG_DST, pd.dst_desc(), d_.dst);
    if (d_.params.bias) call.bind(Role::bias, DNNL_ARG_BIAS, bias_, bias_tensor_);
  }

  void bind_data(const typename Kinds::BackwardData::primitive_desc& pd) {
    require_fast(pd, Verb::backward_data);
    auto& call = this->data_call() = Call::make<typename Kinds::BackwardData>(session_, pd, flops_);
    bind(call, Role::diff_dst, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), d_.dst);
    bind(call, Role::weights, DNNL_ARG_WEIGHTS, pd.weights_desc(), d_.weights);
    bind(call, Role::diff_src, DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), d_.src);
  }

  void bind_weights(const typename Kinds::BackwardWeights::primitive_desc& pd) {
    require_fast(pd, Verb::backward_weights);
    auto& call = this->weights_call() = Call::make<typename Kinds::BackwardWeights>(session_, pd, flops_);
    bind(call, Role::src, DNNL_ARG_SRC, pd.src_desc(), d_.src);
    bind(call, Role::diff_dst, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), d_.dst);
    bind(call, Role::diff_weights, DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(), d_.weights);
    if (d_.params.bias) call.bind(Role::diff_bias, DNNL_ARG_DIFF_BIAS, bias_, bias_tensor_);
  }
};

}  // namespace keelson::backends::onednn
