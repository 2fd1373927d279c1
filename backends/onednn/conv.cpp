#include "engine/ops/conv.hpp"

#include <algorithm>

#include "backends/kokkos/makers.hpp"
#include "backends/onednn/conv_ways.hpp"

namespace keelson::onednn {
namespace {

class Conv final : public Weighted<ops::ConvDesc, ConvKinds> {
 public:
  Conv(const LibraryPtr& library, const ops::ConvDesc& d) : Weighted(library, d, ops::conv_flops(d), d.params.groups) {
    const ConvDescriptors make(library, d);
    build([&](const Operands& o) { return make.forward(o); },
          [&](const Operands& o, const auto& forward) { return make.backward_data(o, forward); },
          [&](const Operands& o, const auto& forward) { return make.backward_weights(o, forward); });
  }
};

/// oneDNN's convolution with the gradient of the weights by another backend's.
class WithOtherWeightsGradient final : public ops::Conv {
 public:
  WithOtherWeightsGradient(std::unique_ptr<ops::Conv> own, std::unique_ptr<ops::Conv> other)
      : own_(std::move(own)), other_(std::move(other)) {}

  Layout layout(Verb v, Role r) const override { return maker_of(v).layout(v, r); }
  std::string name(Verb v) const override { return maker_of(v).name(v); }
  std::size_t scratch_bytes(Verb v) const override { return maker_of(v).scratch_bytes(v); }
  ops::Cost cost(Verb v) const override { return maker_of(v).cost(v); }

  void forward(const Forward<ops::Tensors>& args) override { own_->forward(args); }
  void backward_data(const BackwardData<ops::Tensors>& args) override { own_->backward_data(args); }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override { other_->backward_weights(args); }

 private:
  using Role = ops::Role;
  using Verb = ops::Verb;
  const ops::Conv& maker_of(Verb v) const { return v == Verb::backward_weights ? *other_ : *own_; }

  std::unique_ptr<ops::Conv> own_, other_;
};

/// Whether the Kokkos backend's outer products make the gradient of the weights faster. oneDNN's kernels for it (3.12)
/// suit blocked tensors; on channels-last ones of two dims with many channels they take 1.4 to 1.9 times as long
/// (AVX-512 on Zen 5; kernel 3). There is no difference for kernels of one tap; for strides see
/// slow_on_channels_last().
bool wants_outer_products(const ops::ConvDesc& d, const ops::Conv& own) {
  using enum ops::Role;
  using enum ops::Verb;
  constexpr std::int64_t many = 64;
  return d.training && d.diff_weights && d.src.dtype == DType::f32 && d.src.shape.rank() == 4 &&
         d.params.kernel.elements() > 1 && !has_stride(d.params) && d.weights.shape[1] >= many &&
         d.weights.shape[0] / d.params.groups >= many && own.layout(forward, src).is_channels_last(d.src.shape) &&
         own.layout(forward, dst).is_channels_last(d.dst.shape) && has_instructions(dnnl::cpu_isa::avx512_core) &&
         own.name(backward_weights).find("brg") == std::string::npos;
}

/// oneDNN (3.12) has no kernels for the gradients of a dilated depthwise convolution: it makes a product of each
/// channel, which takes ten times as long as the Kokkos backend's loops.
bool slow_gradients(const ops::ConvDesc& d) {
  const auto channels = d.src.shape[1];
  const bool depthwise = d.params.groups == channels && d.dst.shape[1] == channels && channels > 1;
  const bool dilated = std::any_of(d.params.dilation.begin(), d.params.dilation.end(), [](auto x) { return x > 1; });
  return d.training && depthwise && dilated && d.src.dtype == DType::f32;
}

}  // namespace

std::unique_ptr<ops::Conv> make_direct_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  const int spatial = d.src.shape.rank() - 2;
  if (spatial < 1 || spatial > 3) decline("{} spatial dims; oneDNN convolves over 1 to 3", spatial);
  if (slow_gradients(d)) decline("oneDNN's gradients of dilated depthwise convolutions are slow");
  return std::make_unique<Conv>(library, d);
}

std::unique_ptr<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d) {
  auto own = make_direct_conv(library, d);
  std::vector<kokkos::ConvWay> further;
  if (d.src.dtype == DType::f32) {
    ops::ConvDesc by_kokkos = d;
    by_kokkos.src.layout = Layout::channels_last(d.src.shape);
    by_kokkos.dst.layout = Layout::channels_last(d.dst.shape);
    if (auto other = kokkos::make(by_kokkos).primitive) {
      further = kokkos::ways_by(std::move(other), by_kokkos);
      if (wants_outer_products(d, *own))
        own = std::make_unique<WithOtherWeightsGradient>(std::move(own), kokkos::make(by_kokkos).primitive);
    }
  }
  if (library->device.chooser())
    for (auto& way : further_ways(library, d, *own)) further.push_back(std::move(way));
  return kokkos::fastest_conv(std::move(own), d, further, library->device);
}

}  // namespace keelson::onednn
