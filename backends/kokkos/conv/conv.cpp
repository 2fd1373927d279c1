#include "engine/ops/conv.hpp"

#include <algorithm>
#include <optional>

#include "backends/common/swapped_conv.hpp"
#include "backends/kokkos/conv/conv_bias.hpp"
#include "backends/kokkos/conv/conv_gather.hpp"
#include "backends/kokkos/conv/conv_weights.hpp"
#include "backends/kokkos/conv/depthwise_conv.hpp"
#include "backends/kokkos/conv/tall_weights.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/norm/channels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The source coordinates that the forward kernel reads.
ViewPlan forward_view(const ConvGeometry& g) {
  Triple low, high;
  for (int d = 0; d < 3; ++d) {
    low[d] = -g.pad[d];
    high[d] = (g.dst.extent[d] - 1) * g.stride[d] - g.pad[d] + (g.kernel[d] - 1) * g.dilation[d];
  }
  return ViewPlan(g.src, g.groups, low, high);
}

/// The coordinates of diff_dst that backward data reads.
ViewPlan backward_view(const ConvGeometry& g) {
  Triple low, high;
  for (int d = 0; d < 3; ++d) {
    bool any = false;
    low[d] = high[d] = 0;
    for (Index r = 0; r < std::min(g.stride[d], g.src.extent[d]); ++r) {
      const auto p = residue_of(g, d, r);
      if (p.taps == 0) continue;
      const Index lowest = p.begin - (p.taps - 1) * p.back, highest = p.begin + p.extent - 1;
      low[d] = any ? std::min(low[d], lowest) : lowest;
      high[d] = any ? std::max(high[d], highest) : highest;
      any = true;
    }
  }
  return ViewPlan(g.dst, g.groups, low, high);
}

class KokkosConv : public Conv {
 public:
  explicit KokkosConv(const ConvDesc& d)
      : desc_(d),
        g_(d),
        src_view_(forward_view(g_)),
        diff_view_(backward_view(g_)),
        forward_panels_(g_, true),
        backward_panels_(g_, false),
        weights_gradient_(g_, src_view_),
        bias_slots_(g_, static_cast<std::size_t>(g_.dst.c) * sizeof(double), std::size_t{1} << 20),
        by_channels_(!runs_on_host && d.dst.layout.is_channels_last(d.dst.shape)) {
    if (TallWeightsGradient::suits(g_)) tall_weights_.emplace(g_);
  }

  Layout layout(Verb, Role r) const override { return weighted_layout(desc_, r); }

  std::string name(Verb v) const override {
    if (v == Verb::backward_weights) return tall_weights_ ? tall_weights_->name() : weights_gradient_.name();
    const auto& panels = v == Verb::backward_data ? backward_panels_ : forward_panels_;
    return fmt::format("implicit_gemm:{}x{}", tile_rows, panels.lanes);
  }

  std::size_t scratch_bytes(Verb v) const override {
    switch (v) {
      case Verb::forward:
        return src_view_.scratch_bytes() + forward_panels_.scratch_bytes();
      case Verb::backward_data:
        return diff_view_.scratch_bytes() + backward_panels_.scratch_bytes();
      case Verb::backward_weights:
        return weights_scratch_bytes() +
               (by_channels_ ? channel_sums_scratch(positions(), g_.dst.c)
                             : static_cast<std::size_t>(bias_slots_.count * g_.dst.c) * sizeof(double));
    }
    return 0;
  }

  Cost cost(Verb v) const override {
    const Index bias = desc_.params.bias && v != Verb::backward_data ? g_.dst.c : 0;
    const auto bytes = desc_.src.used_bytes() + desc_.weights.bytes() + desc_.dst.bytes();
    return {conv_flops(desc_), static_cast<double>(bytes) + static_cast<double>(bias) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    constexpr const char* label = "keelson::conv::forward";
    ImplicitGemm k{};
    k.src = src_view_.make(src.data<float>(), part(scratch, 0));
    k.weights = make_panels(forward_panels_, weights.data<float>(), part(scratch, src_view_.scratch_bytes()));
    for (int d = 0; d < 3; ++d) {
      k.src.base -= g_.pad[d] * k.src.step[d];
      k.src_step[d] = g_.stride[d] * k.src.step[d];
      k.taps[d] = g_.kernel[d];
      k.tap_src[d] = g_.dilation[d] * k.src.step[d];
      k.tap_weights[d] = k.weights.step_tap[d];
      k.extent[d] = g_.dst.extent[d];
      k.dst_step[d] = g_.dst.stride[d];
    }
    k.length = g_.ci;
    k.bias = desc_.params.bias ? bias.data<float>() : nullptr;
    k.activation = desc_.params.activation;
    k.dst = dst.data<float>();
    k.n = g_.dst.n, k.groups = g_.groups, k.channels = g_.co, k.panels = forward_panels_.panels;
    k.dst_n = g_.dst.stride_n, k.dst_c = g_.dst.stride_c;
    k.join_taps();
    launch_gather(label, k);
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    scatter("keelson::conv::backward_data", diff_dst, weights, nullptr, {}, diff_src, scratch);
  }

  /// diff_src = activation(the gradient of src + bias). bias: one element per channel of src, or null.
  void scatter(const char* label, const Tensor& diff_dst, const Tensor& weights, const float* bias,
               const EltwiseParams& activation, const Tensor& diff_src, const Tensor& scratch) const {
    ImplicitGemm k{};
    k.bias = bias;
    k.activation = activation;
    k.src = diff_view_.make(diff_dst.data<float>(), part(scratch, 0));
    k.weights = make_panels(backward_panels_, weights.data<float>(), part(scratch, diff_view_.scratch_bytes()));
    k.length = g_.co;
    k.n = g_.src.n, k.groups = g_.groups, k.channels = g_.ci, k.panels = backward_panels_.panels;
    k.dst_n = g_.src.stride_n, k.dst_c = g_.src.stride_c;
    for (Index a = 0; a < std::min(g_.stride[0], g_.src.extent[0]); ++a)
      for (Index b = 0; b < std::min(g_.stride[1], g_.src.extent[1]); ++b)
        for (Index c = 0; c < std::min(g_.stride[2], g_.src.extent[2]); ++c)
          backward_residue(label, k, {a, b, c}, diff_src.data<float>());
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    const auto run = [&](const auto& gradient) {
      gradient.run(src.data<float>(), diff_dst.data<float>(), diff_weights.data<float>(),
                   static_cast<char*>(scratch.raw()));
    };
    if (tall_weights_)
      run(*tall_weights_);
    else
      run(weights_gradient_);
    if (desc_.writes_diff_bias()) bias_gradient(diff_dst, diff_bias, part(scratch, weights_scratch_bytes()));
  }

 private:
  static float* part(const Tensor& scratch, std::size_t bytes) {
    return scratch ? reinterpret_cast<float*>(static_cast<char*>(scratch.raw()) + bytes) : nullptr;
  }

  void backward_residue(const char* label, ImplicitGemm k, const Triple& residue, float* diff_src) const {
    k.dst = diff_src;
    for (int d = 0; d < 3; ++d) {
      const auto p = residue_of(g_, d, residue[d]);
      k.extent[d] = p.extent;
      k.taps[d] = p.taps;
      k.src.base += p.begin * k.src.step[d];
      k.src_step[d] = k.src.step[d];
      k.tap_src[d] = -p.back * k.src.step[d];
      k.weights.data += p.first * k.weights.step_tap[d];
      k.tap_weights[d] = p.step * k.weights.step_tap[d];
      k.dst += residue[d] * g_.src.stride[d];
      k.dst_step[d] = g_.stride[d] * g_.src.stride[d];
    }
    launch_gather(label, k);
  }

  std::size_t weights_scratch_bytes() const {
    return align64(tall_weights_ ? tall_weights_->scratch_bytes() : weights_gradient_.scratch_bytes());
  }
  Index positions() const { return g_.dst.n * g_.dst.extent[0] * g_.dst.extent[1] * g_.dst.extent[2]; }

  void bias_gradient(const Tensor& diff_dst, const Tensor& diff_bias, void* scratch) const {
    if (by_channels_)
      return channel_sums(diff_dst.raw(), DType::f32, positions(), g_.dst.c, diff_bias.data<float>(), scratch);
    auto* partial = static_cast<double*>(scratch);
    constexpr const char *slots_label = "keelson::conv::bias_slots", *label = "keelson::conv::bias";
    launch(slots_label, bias_slots_.count * ceil_div(g_.dst.c, bias_lanes),
           BiasSlots{diff_dst.data<float>(), g_.dst, bias_slots_.lines, partial});
    launch(label, g_.dst.c, AddBias{partial, bias_slots_.count, g_.dst.c, diff_bias.data<float>()});
  }

  ConvDesc desc_;
  ConvGeometry g_;
  ViewPlan src_view_, diff_view_;
  PanelPlan forward_panels_, backward_panels_;
  ConvWeightsGradient weights_gradient_;
  std::optional<TallWeightsGradient> tall_weights_;  ///< in place of weights_gradient_
  PartialSumBlocks bias_slots_;
  bool by_channels_;  ///< bias gradients: slots are too much work for one work item of a GPU
};

std::string mismatch(const ConvDesc& d) {
  try {
    const auto wanted = conv_dst_shape(d.src.shape, d.params, d.weights.shape[0]);
    if (!(wanted == d.dst.shape))
      return fmt::format("dst has shape {}, expected {}", to_string(d.dst.shape), to_string(wanted));
  } catch (const InputError& e) {
    return e.what();
  }
  Shape weights{d.dst.shape[1], d.src.shape[1] / d.params.groups};
  for (auto k : d.params.kernel) weights.push_back(k);
  if (!(weights == d.weights.shape))
    return fmt::format("weights have shape {}, expected {}", to_string(d.weights.shape), to_string(weights));
  return "";
}

/// Bias and activation take no extra pass: the kernel applies them before storing an element.
class KokkosTransposedConv final : public backends::SwappedConv {
 public:
  using SwappedConv::SwappedConv;

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    static_cast<const KokkosConv&>(conv()).scatter("keelson::transposed_conv::forward", src, weights,
                                                   desc().params.bias ? bias.data<float>() : nullptr,
                                                   desc().params.activation, dst, scratch);
  }
};

}  // namespace

Expected<Conv> make(const ConvDesc& desc) {
  ConvDesc d = desc;
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}})
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
  if (auto why = mismatch(d); !why.empty()) return why;
  if (d.training && !derivative_from_dst(d.params.activation))
    return to_string(d.params.activation) + " cannot be fused in training: its derivative needs its argument";
  if (auto depthwise = make_depthwise_conv(d); depthwise.primitive) return depthwise;
  d.src.layout = chosen(d.src, Layout::channels_last(d.src.shape));
  d.weights.layout = chosen(d.weights, filters_last(d.weights.shape));
  d.dst.layout = chosen(d.dst, Layout::channels_last(d.dst.shape));
  return std::unique_ptr<Conv>(std::make_unique<KokkosConv>(d));
}

Expected<TransposedConv> make(const TransposedConvDesc& d) {
  if (auto why = backends::transposed_conv_mismatch(d); !why.empty()) return why;
  auto conv = make(swapped_conv(d));
  if (!conv.primitive) return conv.unsupported_reason;
  return std::unique_ptr<TransposedConv>(std::make_unique<KokkosTransposedConv>(d, std::move(conv.primitive)));
}

}  // namespace keelson::kokkos
