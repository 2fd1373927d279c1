#include <algorithm>

#include "backends/kokkos/conv/conv_bias.hpp"
#include "backends/kokkos/pool/conv_max_pool_device.hpp"
#include "backends/kokkos/winograd/winograd.hpp"
#include "backends/kokkos/winograd/winograd_passes.hpp"
#include "engine/base/align.hpp"
#include "engine/base/error.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class WinogradConvMaxPool final : public ConvMaxPoolForward {
 public:
  WinogradConvMaxPool(const ConvMaxPoolForwardDesc& d, int m)
      : d_(d),
        algorithm_(winograd_algorithm(d.conv.params.kernel, m, Verb::forward)),
        pass_(make_winograd_pass(d.conv, Verb::forward, m)) {}

  Layout layout(Verb, Role r) const override { return r == Role::dst ? d_.dst.layout : weighted_layout(d_.conv, r); }
  std::string name(Verb) const override { return algorithm_.name + " + pooled tiles"; }
  double relative_error(Verb) const override { return algorithm_.relative_error; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(d_.dst.elements()); }
  std::size_t scratch_bytes(Verb) const override { return pass_->scratch_bytes(); }
  Cost cost(Verb) const override {
    return algorithm_.cost(
        {conv_flops(d_.conv), static_cast<double>(d_.conv.src.bytes() + d_.conv.weights.bytes() + d_.dst.bytes())});
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, workspace, scratch] = args;
    WinogradOutput output = pass_->output(dst.data<float>());
    output.argmax = workspace ? static_cast<std::uint8_t*>(workspace.raw()) : nullptr;
    output.bias = d_.conv.params.bias ? bias.data<float>() : nullptr;
    output.activation = d_.conv.params.activation;
    output.pooled = true;
    output.pool = Volume(d_.dst.shape, d_.dst.layout);
    pass_->run(pass_->source(src.raw(), src.dtype()), weights, output, scratch.raw());
  }

 private:
  ConvMaxPoolForwardDesc d_;
  FastAlgorithm algorithm_;
  std::unique_ptr<WinogradPass> pass_;
};

/// The convolution before the pooling.
ConvDesc conv_of(const ConvMaxPoolDesc& d) {
  ConvDesc c;
  c.params = d.conv;
  c.src = d.src;
  c.weights = d.weights;
  const Shape dst = conv_dst_shape(d.src.shape, d.conv, d.weights.shape[0]);
  c.dst = {dst, d.dst.dtype, Layout::channels_last(dst)};
  c.exact = d.exact;
  return c;
}

/// One verb; the other fails.
class WinogradMaxPoolBackward final : public ConvMaxPoolBackward {
 public:
  WinogradMaxPoolBackward(const ConvMaxPoolDesc& d, Verb verb, int m)
      : d_(d),
        verb_(verb),
        algorithm_(winograd_algorithm(d.conv.kernel, m, verb, true)),
        unpooled_(conv_of(d).dst),
        bias_(Volume(d.dst.shape, d.dst.layout)) {
    if (verb == Verb::backward_data)
      data_ = make_winograd_pass(conv_of(d), verb, m);
    else
      weights_ = make_winograd_weights_pass(conv_of(d), m);
  }

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  std::string name(Verb) const override { return algorithm_.name; }
  double relative_error(Verb) const override { return algorithm_.relative_error; }
  std::size_t scratch_bytes(Verb) const override {
    return data_ ? data_->scratch_bytes() : align64(weights_->scratch_bytes()) + bias_.scratch_bytes();
  }
  /// Counts only the maxima of the windows: the other gradients are zero. The algorithm's products are not fewer.
  Cost cost(Verb) const override {
    const auto windows = static_cast<double>(d_.dst.elements());
    const auto taps = static_cast<double>(d_.weights.elements()) / static_cast<double>(d_.weights.shape[0]);
    return {2 * taps * windows, static_cast<double>(d_.src.bytes() + d_.weights.bytes() + d_.dst.bytes()) + windows};
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, workspace, weights, diff_src, scratch] = args;
    if (!data_) fail("made for {} only", to_string(verb_));
    data_->run(source(diff_dst, workspace), weights, data_->output(diff_src.data<float>()), scratch.raw());
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, workspace, diff_weights, diff_bias, scratch] = args;
    if (!weights_) fail("made for {} only", to_string(verb_));
    weights_->run(src.data<float>(), source(diff_dst, workspace), diff_weights, scratch.raw());
    auto* const rest = static_cast<std::byte*>(scratch.raw()) + align64(weights_->scratch_bytes());
    if (d_.conv.bias) bias_.run(diff_dst.data<float>(), diff_bias.data<float>(), rest);
  }

 private:
  TileSource source(const Tensor& diff_dst, const Tensor& workspace) const {
    return TileSource(diff_dst.data<float>(), static_cast<const std::uint8_t*>(workspace.raw()),
                      Volume(d_.dst.shape, d_.dst.layout), three(d_.pool.kernel, 1),
                      Volume(unpooled_.shape, unpooled_.layout));
  }

  ConvMaxPoolDesc d_;
  Verb verb_;
  FastAlgorithm algorithm_;
  TensorDesc unpooled_;
  BiasSums bias_;
  std::unique_ptr<WinogradPass> data_;
  std::unique_ptr<WinogradWeightsPass> weights_;
};

bool are_all(const Shape& s, std::int64_t value) {
  return std::all_of(s.begin(), s.end(), [=](auto v) { return v == value; });
}

}  // namespace

Expected<ConvMaxPoolForward> make_winograd_conv_max_pool(const ConvMaxPoolForwardDesc& desc, int m) {
  KEELSON_EXPECT(m >= 2 && m <= 4);
  ConvMaxPoolForwardDesc d = desc;
  if (auto why = unfit_for_winograd(d.conv, Verb::forward, m); !why.empty()) return why;
  if (auto why = settle_winograd_layouts(d.conv); !why.empty()) return why;
  if (m % 2 != 0) return std::string("windows of 2 reach beyond tiles of 3");
  if (d.pool.kind != PoolKind::max || !are_all(d.pool.kernel, 2) || !are_all(d.pool.stride, 2) ||
      !are_all(d.pool.pad_begin, 0) || !are_all(d.pool.pad_end, 0))
    return std::string("the windows must be 2 along each dim, without gap or overlap");
  d.dst.layout = chosen(d.dst, Layout::channels_last(d.dst.shape));
  if (!d.dst.layout.is_channels_last(d.dst.shape)) return std::string("dst is not channels-last");
  return std::unique_ptr<ConvMaxPoolForward>(std::make_unique<WinogradConvMaxPool>(d, m));
}

Expected<ConvMaxPoolBackward> make_winograd_max_pool_backward(const ConvMaxPoolDesc& desc, Verb verb, int m) {
  KEELSON_EXPECT(m >= 2 && m <= 4);
  KEELSON_EXPECT(verb != Verb::forward);
  if (auto why = unfit_for_argmax(desc); !why.empty()) return why;
  ConvMaxPoolDesc d = desc;
  if (auto why = unfit_for_winograd(conv_of(d), verb, m); !why.empty()) return why;
  for (TensorDesc* t : {&d.src, &d.weights, &d.dst}) t->layout = chosen(*t, Layout::channels_last(t->shape));
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"dst", &d.dst}})
    if (!t->layout.is_channels_last(t->shape) || !t->layout.is_dense(t->shape))
      return fmt::format("{} is not channels-last", name);
  return std::unique_ptr<ConvMaxPoolBackward>(std::make_unique<WinogradMaxPoolBackward>(d, verb, m));
}

}  // namespace keelson::kokkos
