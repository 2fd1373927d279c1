#include "backends/kokkos/winograd/winograd.hpp"

#include "backends/kokkos/conv/conv_bias.hpp"
#include "backends/kokkos/conv/one_verb_conv.hpp"
#include "backends/kokkos/winograd/winograd_passes.hpp"
#include "engine/base/align.hpp"
#include "engine/base/error.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class WinogradForward final : public OneVerbConv {
 public:
  WinogradForward(const ConvDesc& d, int m)
      : OneVerbConv(d, Verb::forward, winograd_algorithm(d.params.kernel, m, Verb::forward)),
        pass_(make_winograd_pass(d, Verb::forward, m)) {}
  std::size_t scratch_bytes(Verb) const override { return pass_->scratch_bytes(); }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    WinogradOutput output = pass_->output(dst.data<float>());
    output.bias = d_.params.bias ? bias.data<float>() : nullptr;
    output.activation = d_.params.activation;
    pass_->run(pass_->source(src.raw(), src.dtype()), weights, output, scratch.raw());
  }

 private:
  std::unique_ptr<WinogradPass> pass_;
};

class WinogradBackwardData final : public OneVerbConv {
 public:
  WinogradBackwardData(const ConvDesc& d, int m)
      : OneVerbConv(d, Verb::backward_data, winograd_algorithm(d.params.kernel, m, Verb::backward_data)),
        pass_(make_winograd_pass(d, Verb::backward_data, m)) {}
  std::size_t scratch_bytes(Verb) const override { return pass_->scratch_bytes(); }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    pass_->run(pass_->source(diff_dst.raw(), DType::f32), weights, pass_->output(diff_src.data<float>()),
               scratch.raw());
  }

 private:
  std::unique_ptr<WinogradPass> pass_;
};

class WinogradBackwardWeights final : public OneVerbConv {
 public:
  WinogradBackwardWeights(const ConvDesc& d, int m)
      : OneVerbConv(d, Verb::backward_weights, winograd_algorithm(d.params.kernel, m, Verb::backward_weights)),
        pass_(make_winograd_weights_pass(d, m)),
        bias_(Volume(d.dst.shape, d.dst.layout)) {}
  std::size_t scratch_bytes(Verb) const override { return align64(pass_->scratch_bytes()) + bias_.scratch_bytes(); }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    const auto* const diff = diff_dst.data<float>();
    pass_->run(src.data<float>(), pass_->gradient(diff), diff_weights, scratch.raw());
    auto* const rest = static_cast<std::byte*>(scratch.raw()) + align64(pass_->scratch_bytes());
    if (d_.writes_diff_bias()) bias_.run(diff, diff_bias.data<float>(), rest);
  }

 private:
  std::unique_ptr<WinogradWeightsPass> pass_;
  BiasSums bias_;
};

}  // namespace

Expected<Conv> make_winograd_conv(const ConvDesc& desc, Verb verb, int m) {
  KEELSON_EXPECT(m >= 2 && m <= 4);
  ConvDesc d = desc;
  if (auto why = unfit_for_winograd(d, verb, m); !why.empty()) return why;
  if (auto why = settle_winograd_layouts(d); !why.empty()) return why;
  if (verb == Verb::forward) return std::unique_ptr<Conv>(std::make_unique<WinogradForward>(d, m));
  if (verb == Verb::backward_data) return std::unique_ptr<Conv>(std::make_unique<WinogradBackwardData>(d, m));
  return std::unique_ptr<Conv>(std::make_unique<WinogradBackwardWeights>(d, m));
}

int winograd_guess(const ConvDesc& d, Verb verb) {
  // Filters are transformed and written once, and read once per block of tiles: this pays only with many tiles.
  constexpr std::int64_t filters_per_tile = 4;
  if (d.src.dtype != DType::f32) return 0;  // processors may have faster units for bf16
  for (const int m : winograd_sizes) {
    if (!unfit_for_winograd(d, verb, m).empty()) continue;
    std::int64_t tiles = d.dst.shape[0];
    for (int i = 2; i < d.dst.shape.rank(); ++i) tiles *= ceil_div(d.dst.shape[i], m);
    if (tiles * filters_per_tile >= d.dst.shape[1]) return m;
  }
  return 0;
}

}  // namespace keelson::kokkos
