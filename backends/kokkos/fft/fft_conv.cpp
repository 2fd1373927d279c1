#include "backends/kokkos/fft/fft_conv.hpp"

#include <algorithm>

#include "backends/kokkos/common/caches.hpp"
#include "backends/kokkos/conv/conv_bias.hpp"
#include "backends/kokkos/conv/one_verb_conv.hpp"
#include "backends/kokkos/fft/fft_conv_kernels.hpp"
#include "backends/kokkos/winograd/winograd_passes.hpp"
#include "engine/base/error.hpp"
#include "engine/base/memory_parts.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// A tile of 16 x 16 has 128 complex products, of 4 multiplications each, for its 17 - taps results along each dim.
FastAlgorithm fft_algorithm(const Shape& kernel) {
  double definition = 1;
  for (const auto taps : kernel) definition *= static_cast<double>(taps * (17 - taps));
  return {.name = "fft:16x16", .times_fewer = definition / 512};
}

/// The forward pass, or the gradient of src, which is the same with reversed taps.
/// `T`: of the source and the weights.
template <class T>
class FftResults final : public OneVerbConv {
 public:
  FftResults(const ConvDesc& d, Verb verb)
      : OneVerbConv(d, verb, fft_algorithm(d.params.kernel)),
        geometry_(d),
        turned_(verb == Verb::backward_data),
        kernels_(make_kernels(geometry_, turned_)) {
    FftTiles<T>& k = kernels_;
    k.panels = ceil_div(k.result.channels, Index{vector_width});
    // A block's spectra, and the sums of a few panels, stay in the second cache level.
    constexpr Index most_channels = fft_most_channels, most_group = 4, fewest = 2;
    k.chunk = std::min(ceil_div(k.source.channels, Index{vector_width}) * vector_width, most_channels);
    k.block = std::min<Index>(fft_rows, k.grid.count);
    const auto bytes = [&] { return static_cast<std::size_t>(k.scratch_floats()) * sizeof(float); };
    while (bytes() > static_cast<std::size_t>(second_cache_bytes()) * 3 / 4 && k.chunk >= fewest * vector_width)
      k.chunk -= vector_width;
    const Index blocks = ceil_div(k.grid.count, k.block), workers = space().concurrency();
    k.groups = k.has_one_chunk() ? 1 : ceil_div(k.panels, most_group);
    while (blocks * k.groups < workers && k.groups < k.panels) ++k.groups;
    k.workers = std::min(workers, blocks * k.groups);
  }
  std::size_t scratch_bytes(Verb) const override {
    MemoryParts parts(nullptr);
    parts.take<float>(filter_floats()), parts.take<float>(kernels_.workers * kernels_.scratch_floats());
    return parts.used();
  }
  void forward(const Forward<ops::Tensors>& args) override {
    if (turned_) return OneVerbConv::forward(args);
    const auto& [src, weights, bias, dst, scratch] = args;
    FftTiles<T> k = kernels_;
    k.bias = d_.params.bias ? bias.data<float>() : nullptr;
    k.activation = d_.params.activation;
    run(k, src.data<T>(), weights.data<T>(), dst.data<float>(), scratch.raw());
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    if (!turned_) return OneVerbConv::backward_data(args);
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    run(kernels_, diff_dst.data<T>(), weights.data<T>(), diff_src.data<float>(), scratch.raw());
  }

 private:
  static FftTiles<T> make_kernels(const ConvGeometry& g, bool turned) {
    const Volume &from = turned ? g.dst : g.src, &to = turned ? g.src : g.dst;
    Triple pad = g.pad;
    for (int i = 1; i < 3 && turned; ++i) pad[i] = g.kernel[i] - 1 - pad[i];
    return {FftGrid(to.n, to.extent[1], to.extent[2], g.kernel, pad),
            FftImages<T>(from, nullptr),
            FftImages<float>(to, nullptr),
            nullptr,
            1,
            1,
            1,
            1,
            1,
            nullptr,
            nullptr,
            nullptr,
            {}};
  }
  Index filter_floats() const { return kernels_.panels * fft_slots * fft_filter_floats(kernels_.source.channels); }

  void run(FftTiles<T> k, const T* source, const T* weights, float* result, void* scratch) const {
    constexpr const char *filters_label = "keelson::fft::filters", *label = "keelson::fft::tiles";
    MemoryParts parts(scratch);
    auto* const filters = parts.take<float>(filter_floats());
    k.scratch = parts.take<float>(k.workers * k.scratch_floats());
    k.filters = filters, k.source.data = source, k.to = result;
    const ConvGeometry& g = geometry_;
    const Index sign = turned_ ? -1 : 1, row = g.weights_tap[1], tap = g.weights_tap[2];
    if (turned_) weights += (g.kernel[1] - 1) * row + (g.kernel[2] - 1) * tap;
    launch(filters_label, k.panels * k.source.channels,
           FftFilters<T>{weights,
                         k.source.channels,
                         k.result.channels,
                         turned_ ? g.weights_o : g.weights_i,
                         turned_ ? g.weights_i : g.weights_o,
                         sign * row,
                         sign * tap,
                         {static_cast<int>(g.kernel[1]), static_cast<int>(g.kernel[2])},
                         filters});
    launch(label, k.workers, k);
  }

  ConvGeometry geometry_;
  bool turned_;
  FftTiles<T> kernels_;
};

class FftWeightGradient final : public OneVerbConv {
 public:
  explicit FftWeightGradient(const ConvDesc& d)
      : OneVerbConv(d, Verb::backward_weights, fft_algorithm(d.params.kernel)),
        geometry_(d),
        grid_(geometry_.dst.n, geometry_.dst.extent[1], geometry_.dst.extent[2], geometry_.kernel, geometry_.pad),
        panels_(ceil_div(geometry_.co, Index{vector_width})),
        bias_(geometry_.dst) {
    const Index floats_per_tile = 2 * fft_slots * (padded_channels() + panels_ * vector_width);
    constexpr Index most_bytes = Index{4} << 20, fewest_tiles = 32;
    block_ = std::max<Index>(most_bytes / (floats_per_tile * Index{sizeof(float)}), fewest_tiles);
    block_ = ceil_div(grid_.count, ceil_div(grid_.count, block_));  // blocks of one size
  }
  std::size_t scratch_bytes(Verb) const override {
    MemoryParts parts(nullptr);
    take(parts);
    return parts.used();
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    constexpr const char *gradients_label = "keelson::fft::gradients", *sums_label = "keelson::fft::weight_sums",
                         *label = "keelson::fft::weights";
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    MemoryParts parts(scratch.raw());
    const Memory m = take(parts);
    const ConvGeometry& g = geometry_;
    const FftImages<float> source(g.src, src.data<float>()), gradient(g.dst, diff_dst.data<float>());
    for (Index first = 0; first < grid_.count; first += block_) {
      const Index count = std::min(block_, grid_.count - first);
      launch(gradients_label, count, FftGradients{grid_, source, gradient, m.v, m.d, first});
      launch(sums_label, fft_slots * panels_, FftWeightSums{m.v, m.d, count, g.ci, panels_, first == 0, m.sums});
    }
    launch(label, panels_ * g.ci,
           FftWeights{m.sums,
                      panels_,
                      g.ci,
                      g.co,
                      diff_weights.data<float>(),
                      g.weights_i,
                      g.weights_o,
                      g.weights_tap[1],
                      g.weights_tap[2],
                      {static_cast<int>(g.kernel[1]), static_cast<int>(g.kernel[2])}});
    if (d_.writes_diff_bias()) bias_.run(gradient.data, diff_bias.data<float>(), m.bias);
  }

 private:
  struct Memory {
    Spectra v, d;
    float* sums;
    std::byte* bias;
  };
  Index padded_channels() const { return ceil_div(geometry_.ci, Index{vector_width}) * vector_width; }
  Memory take(MemoryParts& parts) const {
    constexpr Index gap = 16;
    const auto spectra = [&](Index channels) {
      const Index slot = block_ * 2 * channels + gap;
      return Spectra{parts.take<float>(fft_slots * slot), slot, 2 * channels, channels};
    };
    const Spectra v = spectra(padded_channels()), d = spectra(panels_ * vector_width);
    return {v, d, parts.take<float>(fft_slots * panels_ * geometry_.ci * 2 * vector_width),
            parts.take_bytes(d_.writes_diff_bias() ? bias_.scratch_bytes() : 0)};
  }

  ConvGeometry geometry_;
  FftGrid grid_;
  Index panels_, block_ = 1;
  BiasSums bias_;
};

std::string unfit_for_fft(const ConvDesc& d, Verb verb) {
  const auto& p = d.params;
  if (!runs_on_host) return "convolutions by Fourier transforms are for CPUs";
  if (d.exact) return "exact sums were requested";
  constexpr std::int64_t fewest_taps = 4, most_taps = 9;
  if (p.kernel.rank() != 2 || std::max(p.kernel[0], p.kernel[1]) < fewest_taps ||
      std::max(p.kernel[0], p.kernel[1]) > most_taps)
    return fmt::format("the kernel is {}; {} to {} taps along one of two dims are needed", to_string(p.kernel),
                       fewest_taps, most_taps);
  for (int i = 0; i < 2; ++i) {
    if (p.stride[i] != 1 || p.dilation[i] != 1 || p.groups != 1)
      return "stride and dilation 1 and one group are needed";
    if (p.pad_begin[i] >= p.kernel[i] || p.pad_end[i] >= p.kernel[i]) return "the padding reaches beyond the kernel";
  }
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    TensorDesc as_f32 = *t;
    if (verb == Verb::forward && t != &d.dst && d.src.dtype == d.weights.dtype && t->dtype == DType::bf16)
      as_f32.dtype = DType::f32;
    if (auto why = not_strided_f32(name, as_f32); !why.empty()) return why;
  }
  constexpr std::int64_t multiple = 4;
  if (d.src.shape[1] % multiple != 0 || d.dst.shape[1] % multiple != 0)
    return fmt::format("{} to {} channels; multiples of {} are needed", d.src.shape[1], d.dst.shape[1], multiple);
  return "";
}

}  // namespace

Expected<Conv> make_fft_conv(const ConvDesc& desc, Verb verb) {
  ConvDesc d = desc;
  if (auto why = unfit_for_fft(d, verb); !why.empty()) return why;
  if (auto why = settle_winograd_layouts(d); !why.empty()) return why;
  if (verb == Verb::backward_weights) return std::unique_ptr<Conv>(std::make_unique<FftWeightGradient>(d));
  const auto make = [&]<class T>(T) -> std::unique_ptr<Conv> {
    if constexpr (runs_on_host)  // there are no kernels for GPUs
      return std::make_unique<FftResults<T>>(d, verb);
    else
      fail("convolutions by Fourier transforms are for CPUs");
  };
  return d.src.dtype == DType::bf16 ? make(bf16{}) : make(float{});
}

}  // namespace keelson::kokkos
