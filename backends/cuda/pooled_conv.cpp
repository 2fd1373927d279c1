#include "backends/cuda/pooled_conv.hpp"

#include <algorithm>
#include <limits>

#include "backends/cuda/padded_channels.hpp"
#include "backends/kokkos/pool/conv_max_pool_device.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

bool is_all(const Shape& s, std::int64_t value) {
  return std::all_of(s.begin(), s.end(), [=](std::int64_t v) { return v == value; });
}

bool is_last(const TensorDesc& t) { return t.layout == Layout::channels_last(t.shape); }

class PooledConvForward final : public ConvMaxPoolForward {
 public:
  explicit PooledConvForward(const ConvMaxPoolForwardDesc& d)
      : d_(d), kernels_(d.conv.params, d.conv.src, d.dst, d.conv.src.shape[1]) {}

  Layout layout(Verb, Role r) const override { return r == Role::dst ? d_.dst.layout : weighted_layout(d_.conv, r); }
  std::string name(Verb) const override { return "tensor cores"; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(d_.dst.elements()); }
  std::size_t scratch_bytes(Verb) const override { return 0; }
  Cost cost(Verb) const override {
    return {conv_flops(d_.conv), static_cast<double>(d_.conv.src.bytes() + d_.conv.weights.bytes() + d_.dst.bytes()) +
                                     static_cast<double>(d_.dst.elements())};
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, workspace, scratch] = args;
    kernels_.forward(src.raw(), weights.raw(), d_.conv.params.bias ? bias.data<float>() : nullptr, dst.raw(),
                     workspace ? static_cast<std::uint8_t*>(workspace.raw()) : nullptr);
  }

 private:
  ConvMaxPoolForwardDesc d_;
  PooledConv kernels_;
};

class PooledConvWeights final : public ConvMaxPoolBackward {
 public:
  PooledConvWeights(const ConvMaxPoolDesc& d, std::int64_t src_channels)
      : d_(d), kernels_(d.conv, d.src, d.dst, src_channels), slots_(d, kernels_.blocks()) {}

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  std::string name(Verb) const override { return "tensor cores"; }
  std::size_t scratch_bytes(Verb v) const override { return v == Verb::backward_weights ? slots_.scratch_bytes() : 0; }
  Cost cost(Verb) const override {
    const auto windows = static_cast<double>(d_.dst.elements());
    const auto of_filter = static_cast<double>(d_.weights.elements() / d_.dst.shape[1]);
    return {2 * of_filter * windows,
            static_cast<double>(d_.src.bytes() + d_.weights.bytes() + d_.dst.bytes()) + windows};
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, workspace, diff_weights, diff_bias, scratch] = args;
    auto* sums = static_cast<float*>(scratch.raw());
    kernels_.sum_weights(src.raw(), diff_dst.raw(), static_cast<const std::uint8_t*>(workspace.raw()), sums);
    slots_.add(sums, diff_weights.data<float>());
  }
  void backward_data(const BackwardData<ops::Tensors>&) override {
    fail("the gradient of src was not requested: {}", describe(d_));
  }

 private:
  ConvMaxPoolDesc d_;
  PooledConv kernels_;
  kokkos::GradientSlots slots_;
};

}  // namespace

float PooledConv::slope_of(const EltwiseParams& activation) {
  if (activation.kind == EltwiseKind::relu) return 0;
  return activation.kind == EltwiseKind::leaky_relu ? activation.alpha : 1;
}

std::string PooledConv::unfit(const EltwiseParams& activation) {
  const auto kind = activation.kind;
  if (kind == EltwiseKind::identity || kind == EltwiseKind::relu) return "";
  if (kind == EltwiseKind::leaky_relu && activation.alpha >= 0) return "";
  return "the activation is " + to_string(activation) + ", not identity, relu or leaky_relu that grows";
}

std::string PooledConv::unfit(const ConvParams& conv, const PoolParams& pool, const TensorDesc& src,
                              const TensorDesc& dst, int architecture) {
  if (architecture < 80) return fmt::format("sm_{} has no products of 16 x 8 x 16; sm_80 has", architecture);
  if (!is_half(src.dtype)) return fmt::format("src is {}, not bf16 or f16", to_string(src.dtype));
  if (dst.dtype != src.dtype) return fmt::format("src is {}, dst {}", to_string(src.dtype), to_string(dst.dtype));
  if (src.shape.rank() != 5 || !is_all(conv.kernel, 3) || !is_all(conv.stride, 1) || !is_all(conv.dilation, 1))
    return "a kernel of 3 x 3 x 3, stride and dilation 1 are needed";
  if (src.shape[1] > 4 || conv.groups != 1) return fmt::format("{} channels; it takes 1 to 4", src.shape[1]);
  if (dst.shape[1] % 16 != 0) return fmt::format("{} filters, not a multiple of 16", dst.shape[1]);
  if (pool.kind != PoolKind::max || !is_all(pool.kernel, 2) || !is_all(pool.stride, 2) || !is_all(pool.pad_begin, 0) ||
      !is_all(pool.pad_end, 0))
    return "windows of 2 x 2 x 2 without gap, overlap or padding are needed";
  if (dst.elements() == 0) return "there are no windows";
  if (src.elements() > std::numeric_limits<int>::max() || dst.elements() > std::numeric_limits<int>::max())
    return "more than 2^31 elements";
  return "";
}

Expected<ConvMaxPoolForward> make_pooled_conv(const ConvMaxPoolForwardDesc& desc, int architecture) {
  ConvMaxPoolForwardDesc d = desc;
  if (auto why = PooledConv::unfit(d.conv.params, d.pool, d.conv.src, d.dst, architecture); !why.empty()) return why;
  if (auto why = PooledConv::unfit(d.conv.params.activation); !why.empty()) return why;
  if (d.conv.weights.dtype != d.conv.src.dtype)
    return fmt::format("src is {}, weights are {}", to_string(d.conv.src.dtype), to_string(d.conv.weights.dtype));
  for (TensorDesc* t : {&d.conv.src, &d.conv.weights, &d.dst}) {
    if (t->layout.is_any()) t->layout = Layout::channels_last(t->shape);
    if (!is_last(*t)) return std::string("src, weights or dst is not channels-last");
  }
  return std::unique_ptr<ConvMaxPoolForward>(std::make_unique<PooledConvForward>(d));
}

Expected<ConvMaxPoolBackward> make_pooled_conv_weights(const ConvMaxPoolDesc& desc, int architecture) {
  ConvMaxPoolDesc d = desc;
  if (auto why = kokkos::unfit_for_argmax_weights(d); !why.empty()) return why;
  if (auto why = PooledConv::unfit(d.conv, d.pool, d.src, d.dst, architecture); !why.empty()) return why;
  if (d.weights.layout.is_any()) d.weights.layout = Layout::channels_last(d.weights.shape);
  const auto padded = PaddedChannels::channels_of(d.src.layout);
  if (padded == 0 && !is_last(d.src)) return std::string("src is neither channels-last nor padded");
  return std::unique_ptr<ConvMaxPoolBackward>(
      std::make_unique<PooledConvWeights>(d, padded > 0 ? padded : d.src.shape[1]));
}

}  // namespace keelson::cuda
