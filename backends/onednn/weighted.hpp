#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "backends/onednn/support.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/dense.hpp"

namespace keelson::onednn {

/// Descriptors of the three operands whose layouts are chosen.
struct Operands {
  dnnl::memory::desc src, weights, dst;
};

inline bool wants_diff_weights(const ops::ConvDesc& d) { return d.diff_weights; }
inline bool wants_diff_weights(const ops::DenseDesc&) { return true; }

/// Whether neighbouring windows are more than one position apart.
inline bool has_stride(const ops::ConvParams& p) {
  bool strided = false;
  for (int i = 0; i < p.kernel.rank(); ++i) strided = strided || (p.stride[i] > 1 && p.kernel[i] > 1);
  return strided;
}

/// Whether two reorders pay for the gradient of the weights. For strided windows over many channels in two dims, oneDNN
/// takes at least twice the time if the tensors are channels-last (3.12, Zen 5, 256 channels of 96 x 144, kernel 3,
/// stride 2: 45 instead of 22 ms; the reorders take 2 ms). Below 64 channels and in three dims there is no difference.
inline bool slow_on_channels_last(const ops::ConvDesc& d) {
  constexpr std::int64_t many = 64;
  return has_stride(d.params) && d.params.kernel.rank() == 2 && d.src.dtype == DType::f32 &&
         d.weights.shape[1] >= many && d.weights.shape[0] / d.params.groups >= many;
}
inline bool slow_on_channels_last(const ops::DenseDesc&) { return false; }

/// The common part of convolution and dense: src, weights and bias to dst, and the three verbs. `Kinds` names oneDNN's
/// primitives: Forward, BackwardData, BackwardWeights.
template <class Desc, class Kinds>
class Weighted : public CallPrimitive<typename Desc::Op> {
 public:
  void forward(const typename Desc::Op::template Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    run(this->forward_call(), src, weights, dst, d_.params.bias ? &bias : nullptr, scratch);
  }
  void backward_data(const typename Desc::Op::template BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    this->data_call().run({&diff_dst, &weights, &diff_src}, &scratch);
  }
  void backward_weights(const typename Desc::Op::template BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    run(this->weights_call(), src, diff_dst, diff_weights, d_.writes_diff_bias() ? &diff_bias : nullptr, scratch);
  }

 protected:
  using Role = ops::Role;
  using Verb = ops::Verb;

  Weighted(const LibraryPtr& library, const Desc& d, double flops, std::int64_t groups)
      : library_(library), d_(d), flops_(flops), bias_tensor_(TensorDesc::plain({d.dst.shape[1]})) {
    if (d.weights.dtype != d.src.dtype || d.dst.dtype != DType::f32)
      decline("src and weights are {} and {}, dst is {}; expected two alike and f32", to_string(d.src.dtype),
              to_string(d.weights.dtype), to_string(d.dst.dtype));
    given_ = {to_desc(d.src), to_desc(d.weights, groups), to_desc(d.dst)};
    if (d.params.bias) bias_ = to_desc(bias_tensor_);
    if (d.writes_diff_bias()) diff_bias_ = bias_;
  }

  /// If src, weights and diff_dst are 16-bit, results stay f32. The makers get Operands (and forward's descriptor as a
  /// hint) and return oneDNN's primitive descriptor. A backward maker returns an empty descriptor if there is none;
  /// forward's maker throws dnnl::error.
  template <class MakeForward, class MakeData, class MakeWeights>
  void build(const MakeForward& make_forward, const MakeData& make_data, const MakeWeights& make_weights) {
    constexpr auto f32 = dnnl::memory::data_type::f32;
    const auto low = to_data_type(d_.src.dtype);
    const auto make_all = [&](const Operands& wanted) {
      Verbs v{make_forward(wanted), {}, {}};
      if (!d_.training) return v;
      // Gradients in forward's layouts need no reorders. But blocked weights often suit only one direction, so the next
      // candidate chooses the weights' layout, and the last candidate all layouts that were `any`.
      const std::vector<Operands> candidates = {{v.forward.src_desc(), v.forward.weights_desc(), v.forward.dst_desc()},
                                                {v.forward.src_desc(), wanted.weights, v.forward.dst_desc()},
                                                wanted};
      if (d_.diff_src)
        v.data = choose<BackwardData>(candidates, [&](const Operands& o) {
          return make_data({of_type(o.src, f32), o.weights, of_type(o.dst, low)}, v.forward);
        });
      if (!wants_diff_weights(d_)) return v;
      auto for_weights = candidates;
      if (slow_on_channels_last(d_)) for_weights.insert(for_weights.begin(), given_);
      v.weights = choose<BackwardWeights>(for_weights, [&](const Operands& o) {
        return make_weights({o.src, of_type(o.weights, f32), of_type(o.dst, low)}, v.forward);
      });
      return v;
    };
    const auto choose_all = [&] {
      auto verbs = make_all(given_);
      if (const auto other = channels_last(verbs.forward)) {
        try {
          if (auto v = make_all(*other); prefer_channels_last(v, verbs)) verbs = std::move(v);
        } catch (const dnnl::error& e) {
          if (e.status != dnnl_unimplemented) throw;  // oneDNN does not support this: keep its own choice
        }
      }
      return verbs;
    };
    const Verbs verbs = library_->template chosen<Desc, Verbs>().get(d_, choose_all);
    bind_forward(verbs.forward);
    if (!d_.training) return;
    if (d_.diff_src) bind_data(verbs.data);
    if (wants_diff_weights(d_)) bind_weights(verbs.weights);
  }

  dnnl::prop_kind forward_kind() const {
    return d_.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  }

  LibraryPtr library_;
  Desc d_;
  double flops_;
  TensorDesc bias_tensor_;
  dnnl::memory::desc bias_, diff_bias_;  ///< zero if there is no bias, or no gradient of the bias is needed
  Operands given_;

 private:
  using Forward = typename Kinds::Forward::primitive_desc;
  using BackwardData = typename Kinds::BackwardData::primitive_desc;
  using BackwardWeights = typename Kinds::BackwardWeights::primitive_desc;
  struct Verbs {
    Forward forward;
    BackwardData data;
    BackwardWeights weights;
  };

  /// The description with channels-last instead of `any` for src and dst; nothing if oneDNN chose these layouts itself.
  std::optional<Operands> channels_last(const Forward& own) const {
    if (d_.src.shape.rank() < 3) return {};
    const auto wanted = [](const TensorDesc& d) {
      return d.layout.is_any() ? Layout::channels_last(d.shape) : d.layout;
    };
    const auto src = wanted(d_.src), dst = wanted(d_.dst);
    if (src == to_layout(own.src_desc(), d_.src.shape) && dst == to_layout(own.dst_desc(), d_.dst.shape)) return {};
    return Operands{to_desc(d_.src.with(src)), given_.weights, to_desc(d_.dst.with(dst))};
  }

  /// oneDNN chooses blocked tensors for f32 by itself. On channels-last tensors its batch-reduce GEMM kernels are not
  /// slower (2 to 10 % faster per CosmoFlow convolution on a Zen 5), and its depthwise kernels take 1 to 1.5 times as
  /// long. But all neighbours read this layout without a reorder, which takes longer than a depthwise convolution: a
  /// step of DeepCAM takes 0.93 of the time that it takes with blocked depthwise convolutions.
  bool prefer_channels_last(const Verbs& a, const Verbs& own) const {
    const auto as_good = [](const auto& x, const auto& y) {
      return x && (!y || implementation_rank(x.impl_info_str()) >= implementation_rank(y.impl_info_str()));
    };
    const std::string_view name = a.forward.impl_info_str();
    const bool is_known = std::ranges::any_of(std::array{"brg", "brdgmm", "jit_dw"},
                                              [&](const char* kind) { return name.find(kind) != name.npos; });
    return is_known && as_good(a.forward, own.forward) &&
           (!d_.training || ((!d_.diff_src || as_good(a.data, own.data)) &&
                             (!wants_diff_weights(d_) || as_good(a.weights, own.weights))));
  }

  void run(Call& call, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor* bias, const Tensor& scratch) {
    if (bias)
      call.run({&a, &b, &c, bias}, &scratch);
    else
      call.run({&a, &b, &c}, &scratch);
  }

  void bind(Call& call, Role role, int argument, const dnnl::memory::desc& md, const TensorDesc& d) {
    call.bind(role, argument, md, {d.shape, to_dtype(md.get_data_type()), to_layout(md, d.shape)});
  }

  void bind_forward(const Forward& pd) {
    require_fast(pd, Verb::forward);
    auto& call = this->forward_call() = Call::make<typename Kinds::Forward>(library_, pd, flops_);
    bind(call, Role::src, DNNL_ARG_SRC, pd.src_desc(), d_.src);
    bind(call, Role::weights, DNNL_ARG_WEIGHTS, pd.weights_desc(), d_.weights);
    bind(call, Role::dst, DNNL_ARG_DST, pd.dst_desc(), d_.dst);
    if (d_.params.bias) call.bind(Role::bias, DNNL_ARG_BIAS, bias_, bias_tensor_);
  }

  void bind_data(const BackwardData& pd) {
    require_fast(pd, Verb::backward_data);
    auto& call = this->data_call() = Call::make<typename Kinds::BackwardData>(library_, pd, flops_);
    bind(call, Role::diff_dst, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), d_.dst);
    bind(call, Role::weights, DNNL_ARG_WEIGHTS, pd.weights_desc(), d_.weights);
    bind(call, Role::diff_src, DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), d_.src);
  }

  void bind_weights(const BackwardWeights& pd) {
    require_fast(pd, Verb::backward_weights);
    auto& call = this->weights_call() = Call::make<typename Kinds::BackwardWeights>(library_, pd, flops_);
    bind(call, Role::src, DNNL_ARG_SRC, pd.src_desc(), d_.src);
    bind(call, Role::diff_dst, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), d_.dst);
    bind(call, Role::diff_weights, DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(), d_.weights);
    if (d_.writes_diff_bias()) call.bind(Role::diff_bias, DNNL_ARG_DIFF_BIAS, diff_bias_, bias_tensor_);
  }
};

}  // namespace keelson::onednn
