#include "backends/kokkos/winograd/row_winograd.hpp"

#include <algorithm>

#include "backends/kokkos/conv/conv_bias.hpp"
#include "backends/kokkos/conv/one_verb_conv.hpp"
#include "backends/kokkos/winograd/row_winograd_kernels.hpp"
#include "backends/kokkos/winograd/winograd.hpp"
#include "backends/kokkos/winograd/winograd_passes.hpp"
#include "engine/base/error.hpp"
#include "engine/base/memory_parts.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Calls use(algorithm) with the one for `taps` along a row.
template <class Use>
void with_row_algorithm(Index taps, const Use& use) {
  if (taps == 3) return use(Winograd1d<4, 3>{});
  if (taps == 4) return use(Winograd1d<3, 4>{});
  KEELSON_EXPECT(taps == 5);
  use(Winograd1d<2, 5>{});
}

/// The panels with the fewest unused lanes; of these the widest.
RowPanels row_panels(Index columns) {
  RowPanels best{columns, 0, 0};
  for (Index vectors = 1; vectors <= 3; ++vectors) {
    const Index lanes = vectors * vector_width, panels = ceil_div(columns, lanes);
    if (best.panels == 0 || panels * lanes <= best.padded()) best.lanes = lanes, best.panels = panels;
  }
  return best;
}

template <class Use>
void with_row_lanes(Index lanes, const Use& use) {
  if (lanes == vector_width) return use(std::integral_constant<int, vector_width>{});
  if (lanes == 2 * vector_width) return use(std::integral_constant<int, 2 * vector_width>{});
  use(std::integral_constant<int, 3 * vector_width>{});
}

class RowWinogradConv final : public Conv {
 public:
  RowWinogradConv(const ConvDesc& d, Verb verb)
      : d_(d),
        verb_(verb),
        geometry_(d),
        bias_(geometry_.dst),
        panels_(row_panels(verb == Verb::backward_data ? geometry_.ci : geometry_.co)),
        workers_(space().concurrency()) {
    const Volume &src = geometry_.src, &dst = geometry_.dst;
    const bool turned = verb == Verb::backward_data;
    const Volume &from = turned ? dst : src, &to = turned ? src : dst;
    const auto pad = [&](int d) { return turned ? geometry_.kernel[d] - 1 - geometry_.pad[d] : geometry_.pad[d]; };
    const Index m = row_points + 1 - geometry_.kernel[2];
    grid_ = {
        to.n, to.extent[1], to.extent[2], from.c, geometry_.kernel[1], pad(1), pad(2), m, ceil_div(to.extent[2], m)};
    grid_.choose_block(panels_.padded());
    constexpr Index most_slots = 32, most_floats = Index{4} << 20;
    const Index room = std::clamp<Index>(most_floats / slot_floats(), 1, most_slots);
    blocks_of_slot_ = ceil_div(grid_.blocks(), room);
    slots_ = ceil_div(grid_.blocks(), blocks_of_slot_);
    workers_ = std::min(workers_, verb == Verb::backward_weights ? slots_ : grid_.blocks());
  }

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  std::string name(Verb) const override { return algorithm().name; }
  Cost cost(Verb v) const override { return algorithm().cost(conv_cost(d_, v)); }
  std::size_t scratch_bytes(Verb) const override {
    MemoryParts parts(nullptr);
    take(parts);
    return parts.used();
  }

  void forward(const Forward<ops::Tensors>& args) override {
    KEELSON_EXPECT(verb_ == Verb::forward);
    const auto& [src, weights, bias, dst, scratch] = args;
    run(RowImages(geometry_.src, src.data<float>()), weights.data<float>(),
        d_.params.bias ? bias.data<float>() : nullptr, d_.params.activation,
        RowImages(geometry_.dst, dst.data<float>()), scratch.raw());
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    KEELSON_EXPECT(verb_ == Verb::backward_data);
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    run(RowImages(geometry_.dst, diff_dst.data<float>()), weights.data<float>(), nullptr, {},
        RowImages(geometry_.src, diff_src.data<float>()), scratch.raw());
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    KEELSON_EXPECT(verb_ == Verb::backward_weights);
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    constexpr const char *label = "keelson::row_winograd::weights", *add_label = "keelson::row_winograd::add_slots";
    MemoryParts parts(scratch.raw());
    const Memory s = take(parts);
    const RowImages source(geometry_.src, src.data<float>()), gradient(geometry_.dst, diff_dst.data<float>());
    const auto& g = geometry_;
    with_row_algorithm(g.kernel[2], [&]<class Algorithm>(Algorithm) {
      with_row_lanes(panels_.lanes, [&](auto lanes) {
        launch(label, workers_,
               RowWeightsWorker<Algorithm, lanes.value>{grid_, source, gradient, panels_, slots_, blocks_of_slot_,
                                                        workers_, s.blocks, s.filters});
      });
      launch(add_label, panels_.panels * grid_.reduction(),
             AddRowSlots<Algorithm>{s.filters, slots_, panels_, grid_.channels, grid_.taps, g.weights_o, g.weights_i,
                                    g.weights_tap[1], g.weights_tap[2], diff_weights.data<float>()});
    });
    if (d_.writes_diff_bias()) bias_.run(gradient.data, diff_bias.data<float>(), s.bias);
  }

 private:
  FastAlgorithm algorithm() const {
    const auto products = static_cast<double>(grid_.m * geometry_.kernel[2]);
    return {.name = fmt::format("winograd:1x{}", grid_.m), .times_fewer = products / static_cast<double>(row_points)};
  }
  struct Memory {
    float *blocks, *filters;  ///< of the workers; transformed filters, or the slots of their gradients
    std::byte* bias;
  };
  Memory take(MemoryParts& parts) const {
    const Index block = row_points * (grid_.source_floats() + grid_.result_floats(panels_.padded()));
    const bool weights = verb_ == Verb::backward_weights;
    return {parts.take<float>(workers_ * block), parts.take<float>((weights ? slots_ : 1) * slot_floats()),
            parts.take_bytes(weights && d_.writes_diff_bias() ? bias_.scratch_bytes() : 0)};
  }
  Index slot_floats() const { return row_points * grid_.reduction() * panels_.padded(); }

  void run(const RowImages& source, const float* weights, const float* bias, const EltwiseParams& activation,
           const RowImages& result, void* scratch) const {
    constexpr const char *filters_label = "keelson::row_winograd::filters", *label = "keelson::row_winograd::results";
    MemoryParts parts(scratch);
    const Memory s = take(parts);
    const auto& g = geometry_;
    const bool turned = verb_ == Verb::backward_data;
    const Index sign = turned ? -1 : 1, columns = turned ? g.weights_i : g.weights_o,
                channels = turned ? g.weights_o : g.weights_i;
    if (turned) weights += (g.kernel[1] - 1) * g.weights_tap[1] + (g.kernel[2] - 1) * g.weights_tap[2];
    with_row_algorithm(g.kernel[2], [&]<class Algorithm>(Algorithm) {
      launch(filters_label, panels_.panels * grid_.reduction(),
             TransformRowFilters<Algorithm>{weights, panels_, grid_.channels, grid_.taps, columns, channels,
                                            sign * g.weights_tap[1], sign * g.weights_tap[2], s.filters});
      with_row_lanes(panels_.lanes, [&](auto lanes) {
        launch(label, workers_,
               RowWinogradWorker<Algorithm, lanes.value>{grid_, source, result, panels_, s.filters, bias, activation,
                                                         workers_, s.blocks});
      });
    });
  }

  ConvDesc d_;
  Verb verb_;
  ConvGeometry geometry_;
  BiasSums bias_;
  RowPanels panels_;  ///< of the channels of the result, or of the filters for the gradient of the weights
  RowGrid grid_{};
  Index slots_ = 1, blocks_of_slot_ = 1, workers_;
};

std::string unfit_for_row_winograd(const ConvDesc& d, Verb verb) {
  const auto& p = d.params;
  if (!runs_on_host) return "Winograd's algorithms are for CPUs";
  if (d.exact) return "exact sums were requested";
  if (p.kernel.rank() != 2 || p.kernel[1] < 3 || p.kernel[1] > 5)
    return fmt::format("the kernel is {}; 3 to 5 taps along the rows of images are needed", to_string(p.kernel));
  for (int i = 0; i < 2; ++i) {
    if (p.stride[i] != 1 || p.dilation[i] != 1 || p.groups != 1)
      return "stride and dilation 1 and one group are needed";
    if (p.pad_begin[i] >= p.kernel[i] || p.pad_end[i] >= p.kernel[i]) return "the padding reaches beyond the kernel";
  }
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}})
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
  for (const int m : winograd_sizes)
    if (unfit_for_winograd(d, verb, m).empty()) return "Winograd's algorithms in two dims take fewer multiplications";
  return "";
}

}  // namespace

Expected<Conv> make_row_winograd_conv(const ConvDesc& desc, Verb verb) {
  ConvDesc d = desc;
  if (auto why = unfit_for_row_winograd(d, verb); !why.empty()) return why;
  if (auto why = settle_winograd_layouts(d); !why.empty()) return why;
  return std::unique_ptr<Conv>(std::make_unique<RowWinogradConv>(d, verb));
}

}  // namespace keelson::kokkos
