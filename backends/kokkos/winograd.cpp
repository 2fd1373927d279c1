#include "backends/kokkos/winograd.hpp"

#include <algorithm>

#include "backends/kokkos/caches.hpp"
#include "backends/kokkos/conv_bias.hpp"
#include "backends/kokkos/conv_geometry.hpp"
#include "backends/kokkos/winograd_weights.hpp"
#include "engine/base/align.hpp"
#include "engine/base/error.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

template <class Tile>
constexpr int side = Tile::results[2];

template <class Tile>
std::string name_of() {
  return Tile::results[0] > 1 ? fmt::format("winograd:{}x{}x{}", side<Tile>, side<Tile>, side<Tile>)
                              : fmt::format("winograd:{}x{}", side<Tile>, side<Tile>);
}

/// Hands out consecutive parts of the scratch memory, in floats.
class ScratchParts {
 public:
  explicit ScratchParts(void* data) : data_(static_cast<std::byte*>(data)) {}
  float* take(Index floats) {
    auto* const part = reinterpret_cast<float*>(data_ + used_);
    used_ += align64(static_cast<std::size_t>(floats) * sizeof(float));
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* data_;
  std::size_t used_ = 0;
};

/// The strides of weights whose spatial dims are the last ones.
struct WeightStrides {
  Index filter, channel;
  Triple tap;

  explicit WeightStrides(const TensorDesc& w)
      : filter(w.layout.strides()[0]), channel(w.layout.strides()[1]), tap{0, 0, 0} {
    const int spatial = w.shape.rank() - 2;
    for (int i = 0; i < spatial; ++i) tap[3 - spatial + i] = w.layout.strides()[2 + i];
  }
};

/// A pass over all tiles: the forward pass, or the gradient of the source, which is the same with filters turned
/// around.
template <class Tile>
class TilePass {
 public:
  TilePass(const WinogradGrid& grid, Index inner, Index columns) : grid_(grid), inner_(inner), columns_(columns) {
    wide_ = columns > vector_width;
    panels_ = ceil_div(columns, lanes());
    workers_ = space().concurrency();
    const auto bytes_of = [&](Index block) { return static_cast<std::size_t>(scratch_of(block)) * sizeof(float); };
    constexpr Index most_rows = 8;  // of tiles in a block
    block_ = tile_rows;
    while (block_ < most_rows * tile_rows &&
           bytes_of(block_ + tile_rows) <= static_cast<std::size_t>(second_cache_bytes()) / 2)
      block_ += tile_rows;
    block_ = std::min(block_, ceil_div(grid.tile_count, tile_rows) * tile_rows);
    cut_panels();
  }

  /// Results that go to `dst` as they are.
  WinogradOutput output(float* dst) const { return {dst, grid_.out}; }
  Index filters_floats() const { return Tile::points * inner_ * panels_ * lanes(); }
  Index scratch_floats() const { return workers_ * scratch_of(block_); }

  void run(const float* in, const float* weights, const WeightStrides& s, bool turned, const WinogradOutput& output,
           ScratchParts& parts) const {
    constexpr const char *filters_label = "keelson::winograd::filters", *label = "keelson::winograd::tiles";
    float* const u = parts.take(filters_floats());
    float* const scratch = parts.take(scratch_floats());
    Triple tap = s.tap;
    if (turned)
      for (int i = 0; i < 3; ++i) {
        weights += (Tile::taps_of[i] - 1) * tap[i];
        tap[i] = -tap[i];
      }
    const auto launch_with = [&]<int width>(std::integral_constant<int, width>) {
      launch(filters_label, panels_ * inner_,
             TransformFilters<Tile, width>{weights, inner_, columns_, turned ? s.filter : s.channel,
                                           turned ? s.channel : s.filter, tap, u});
      launch(label, workers_,
             WinogradTiles<Tile, width>{grid_, in, u, inner_, columns_, block_, panels_, groups_, workers_, scratch,
                                        output});
    };
    if (wide_)
      launch_with(std::integral_constant<int, max_lanes>{});
    else
      launch_with(std::integral_constant<int, vector_width>{});
  }

 private:
  Index lanes() const { return wide_ ? max_lanes : vector_width; }
  Index scratch_of(Index block) const {
    return wide_ ? WinogradTiles<Tile, max_lanes>::scratch_of_worker(block, inner_)
                 : WinogradTiles<Tile, vector_width>::scratch_of_worker(block, inner_);
  }

  /// Few tiles leave workers without any: they share out the panels, too. Each group of panels transforms its tiles
  /// anew.
  void cut_panels() {
    constexpr double well_shared = 0.85;
    const Index blocks = ceil_div(grid_.tile_count, block_);
    double best = 0;
    for (Index groups = 1; groups <= panels_ && best < well_shared; groups *= 2) {
      const Index works = blocks * groups;
      const double shared = static_cast<double>(works) / static_cast<double>(ceil_div(works, workers_) * workers_);
      if (shared > best) best = shared, groups_ = groups;
    }
    workers_ = std::min(workers_, blocks * groups_);
  }

  WinogradGrid grid_;
  Index inner_, columns_;
  bool wide_;
  Index panels_, workers_, block_, groups_ = 1;
};

template <class Tile>
WinogradGrid grid_of(const TensorDesc& in, const TensorDesc& out, const Triple& pad) {
  return WinogradGrid(Volume(in.shape, in.layout), Volume(out.shape, out.layout), pad, Tile::results);
}

/// Zeros before the gradient of the result, for the pass that makes the gradient of the source of it.
template <class Tile>
Triple turned_pad(Triple pad) {
  for (int i = 0; i < 3; ++i) pad[i] = Tile::taps_of[i] - 1 - pad[i];
  return pad;
}

/// One verb of a convolution; those that are not overridden fail.
class OneVerb : public Conv {
 public:
  OneVerb(const ConvDesc& d, Verb verb) : d_(d), verb_(verb) {}

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  Cost cost(Verb v) const override {
    const auto bias = d_.params.bias && v != Verb::backward_data ? d_.dst.shape[1] : 0;
    const auto bytes = d_.src.bytes() + d_.weights.bytes() + d_.dst.bytes();
    return {conv_flops(d_), static_cast<double>(bytes) + static_cast<double>(bias) * sizeof(float)};
  }
  void forward(const Forward<ops::Tensors>&) override { fail("made for {} only", to_string(verb_)); }
  void backward_data(const BackwardData<ops::Tensors>&) override { fail("made for {} only", to_string(verb_)); }
  void backward_weights(const BackwardWeights<ops::Tensors>&) override { fail("made for {} only", to_string(verb_)); }

 protected:
  ConvDesc d_;

 private:
  Verb verb_;
};

template <class Tile>
class WinogradForward final : public OneVerb {
 public:
  explicit WinogradForward(const ConvDesc& d)
      : OneVerb(d, Verb::forward),
        pass_(grid_of<Tile>(d.src, d.dst, three(d.params.pad_begin, 0)), d.src.shape[1], d.dst.shape[1]) {}
  std::string name(Verb) const override { return name_of<Tile>(); }
  std::size_t scratch_bytes(Verb) const override {
    ScratchParts parts(nullptr);
    parts.take(pass_.filters_floats()), parts.take(pass_.scratch_floats());
    return parts.used();
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    ScratchParts parts(scratch.raw());
    WinogradOutput output = pass_.output(dst.data<float>());
    output.bias = d_.params.bias ? bias.data<float>() : nullptr;
    output.activation = d_.params.activation;
    pass_.run(src.data<float>(), weights.data<float>(), WeightStrides(d_.weights), false, output, parts);
  }

 private:
  TilePass<Tile> pass_;
};

template <class Tile>
class WinogradBackwardData final : public OneVerb {
 public:
  explicit WinogradBackwardData(const ConvDesc& d)
      : OneVerb(d, Verb::backward_data),
        pass_(grid_of<Tile>(d.dst, d.src, turned_pad<Tile>(three(d.params.pad_begin, 0))), d.dst.shape[1],
              d.src.shape[1]) {}
  std::string name(Verb) const override { return name_of<Tile>(); }
  std::size_t scratch_bytes(Verb) const override {
    ScratchParts parts(nullptr);
    parts.take(pass_.filters_floats()), parts.take(pass_.scratch_floats());
    return parts.used();
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    ScratchParts parts(scratch.raw());
    pass_.run(diff_dst.data<float>(), weights.data<float>(), WeightStrides(d_.weights), true,
              pass_.output(diff_src.data<float>()), parts);
  }

 private:
  TilePass<Tile> pass_;
};

template <class Tile>
class WinogradBackwardWeights final : public OneVerb {
 public:
  explicit WinogradBackwardWeights(const ConvDesc& d)
      : OneVerb(d, Verb::backward_weights),
        grid_(grid_of<Tile>(d.src, d.dst, three(d.params.pad_begin, 0))),
        wide_(d.dst.shape[1] > vector_width),
        panels_(ceil_div(d.dst.shape[1], lanes())),
        bias_lines_(ceil_div(lines(), bias_slots)) {
    const Index floats_per_tile = Tile::points * (d.src.shape[1] + padded_filters());
    constexpr Index most_bytes = Index{24} << 20, fewest_tiles = 64;
    block_ = std::clamp<Index>(most_bytes / (floats_per_tile * Index{sizeof(float)}), fewest_tiles, grid_.tile_count);
    block_ = ceil_div(grid_.tile_count, ceil_div(grid_.tile_count, block_));
  }
  std::string name(Verb) const override { return name_of<Tile>(); }
  std::size_t scratch_bytes(Verb) const override {
    ScratchParts parts(nullptr);
    take(parts);
    return parts.used();
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    ScratchParts parts(scratch.raw());
    const Parts p = take(parts);
    if (wide_)
      run<max_lanes>(src.data<float>(), diff_dst.data<float>(), diff_weights.data<float>(), p);
    else
      run<vector_width>(src.data<float>(), diff_dst.data<float>(), diff_weights.data<float>(), p);
    if (d_.writes_diff_bias()) bias_gradient(diff_dst.data<float>(), diff_bias.data<float>(), p.bias);
  }

 private:
  static constexpr Index bias_slots = 64, gap = 16;
  struct Parts {
    TransformedTiles v, d;
    float* sums;
    double* bias;
  };

  Index lanes() const { return wide_ ? max_lanes : vector_width; }
  Index padded_filters() const { return panels_ * lanes(); }
  Index lines() const { return grid_.out.n * grid_.out.extent[0] * grid_.out.extent[1]; }

  Parts take(ScratchParts& parts) const {
    const Index c = d_.src.shape[1], o = d_.dst.shape[1];
    const auto tiles = [&](Index channels) {
      const Index step = block_ * channels + gap;
      return TransformedTiles{parts.take(Tile::points * step + max_lanes), step, channels};
    };
    const TransformedTiles v = tiles(c), d = tiles(o);
    float* const sums = parts.take(Tile::points * padded_filters() * c);
    return {v, d, sums, reinterpret_cast<double*>(parts.take(2 * bias_slots * o))};
  }

  template <int width>
  void run(const float* src, const float* diff_dst, float* diff_weights, const Parts& p) const {
    constexpr const char *transform_label = "keelson::winograd::gradients",
                         *multiply_label = "keelson::winograd::products", *label = "keelson::winograd::sums";
    constexpr Index tiles_per_item = 4;
    for (Index first = 0; first < grid_.tile_count; first += block_) {
      const Index count = std::min(block_, grid_.tile_count - first);
      launch(transform_label, ceil_div(count, tiles_per_item),
             TransformTiles<Tile>{grid_, src, diff_dst, p.v, p.d, first, count, tiles_per_item});
      launch(multiply_label, Tile::points * panels_,
             MultiplyTiles<Tile, width>{p.v, p.d, count, panels_, first == 0, p.sums});
    }
    const WeightStrides s(d_.weights);
    launch(label, panels_ * d_.src.shape[1],
           TransformSums<Tile, width>{p.sums, panels_, d_.src.shape[1], d_.dst.shape[1], diff_weights, s.channel,
                                      s.filter, s.tap});
  }

  void bias_gradient(const float* diff_dst, float* diff_bias, double* partial) const {
    constexpr const char *slots_label = "keelson::winograd::bias_slots", *label = "keelson::winograd::bias";
    const Index slots = ceil_div(lines(), bias_lines_), filters = d_.dst.shape[1];
    launch(slots_label, slots * ceil_div(filters, bias_lanes), BiasSlots{diff_dst, grid_.out, bias_lines_, partial});
    launch(label, filters, AddBias{partial, slots, filters, diff_bias});
  }

  WinogradGrid grid_;
  bool wide_;
  Index panels_, bias_lines_, block_ = 1;
};

template <class Tile>
class WinogradConvMaxPool final : public ConvMaxPoolForward {
 public:
  explicit WinogradConvMaxPool(const ConvMaxPoolForwardDesc& d)
      : d_(d),
        pass_(grid_of<Tile>(d.conv.src, d.conv.dst, three(d.conv.params.pad_begin, 0)), d.conv.src.shape[1],
              d.conv.dst.shape[1]) {}

  Layout layout(Verb, Role r) const override { return r == Role::dst ? d_.dst.layout : weighted_layout(d_.conv, r); }
  std::string name(Verb) const override { return name_of<Tile>() + " + pooled tiles"; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(d_.dst.elements()); }
  std::size_t scratch_bytes(Verb) const override {
    ScratchParts parts(nullptr);
    parts.take(pass_.filters_floats()), parts.take(pass_.scratch_floats());
    return parts.used();
  }
  Cost cost(Verb) const override {
    return {conv_flops(d_.conv), static_cast<double>(d_.conv.src.bytes() + d_.conv.weights.bytes() + d_.dst.bytes())};
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, workspace, scratch] = args;
    ScratchParts parts(scratch.raw());
    WinogradOutput output = pass_.output(dst.data<float>());
    output.argmax = workspace ? static_cast<std::uint8_t*>(workspace.raw()) : nullptr;
    output.bias = d_.conv.params.bias ? bias.data<float>() : nullptr;
    output.activation = d_.conv.params.activation;
    output.pooled = true;
    output.pool = Volume(d_.dst.shape, d_.dst.layout);
    pass_.run(src.data<float>(), weights.data<float>(), WeightStrides(d_.conv.weights), false, output, parts);
  }

 private:
  ConvMaxPoolForwardDesc d_;
  TilePass<Tile> pass_;
};

bool all_are(const Shape& s, std::int64_t value) {
  return std::all_of(s.begin(), s.end(), [=](auto v) { return v == value; });
}

/// The reason why the algorithm with tiles of m cannot make this verb; empty: none.
std::string unfit_for_winograd(const ConvDesc& d, Verb verb, int m) {
  const auto& p = d.params;
  if (!runs_on_host) return "Winograd's algorithms are for CPUs";
  if (d.exact) return "direct sums are asked for";
  const bool fives = all_are(p.kernel, 5) && m == 2;
  if (p.kernel.rank() < 2 || p.kernel.rank() > 3 || !(all_are(p.kernel, 3) || fives))
    return fmt::format("a kernel of 3{} along 2 or 3 dims is needed", m == 2 ? " or 5" : "");
  if (!all_are(p.stride, 1) || !all_are(p.dilation, 1) || p.groups != 1)
    return "stride and dilation 1 and one group are needed";
  for (const auto* pads : {&p.pad_begin, &p.pad_end})
    for (int i = 0; i < p.kernel.rank(); ++i)
      if ((*pads)[i] >= p.kernel[i]) return "more zeros beside src than taps reach";
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}})
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
  const Index c = d.src.shape[1], o = d.dst.shape[1];
  const bool any_source = verb == Verb::forward && c % 4 == 0;
  constexpr Index multiple = std::max(4, vector_width);  // the products take 4 channels at a time
  if (o % multiple != 0 || (c % multiple != 0 && !any_source))
    return fmt::format("{} to {} channels; multiples of {} are needed", c, o, multiple);
  return "";
}

/// Layouts that are left open become channels-last ones; the reason why others do not do.
std::string settle_layouts(ConvDesc& d) {
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    t->layout = chosen(*t, Layout::channels_last(t->shape));
    const bool channels_last = t->shape[1] == 1 || t->layout.strides()[1] == 1;
    if (t != &d.weights && !channels_last) return fmt::format("{} has not its channels last", name);
  }
  return "";
}

/// make(Tile) for the tile of m results along each of the spatial dims.
template <class Op, class Make>
Expected<Op> with_tile(const Shape& kernel, int m, const Make& make) {
  [[maybe_unused]] const auto with_taps = [&]<int spatial>(std::integral_constant<int, spatial>) -> Expected<Op> {
    if (kernel[0] == 5) return make(WinogradTile<spatial, 2, 5>{});
    if (m == 4) return make(WinogradTile<spatial, 4, 3>{});
    return make(WinogradTile<spatial, 2, 3>{});
  };
  if constexpr (runs_on_host)  // no kernels for GPUs
    return kernel.rank() == 3 ? with_taps(std::integral_constant<int, 3>{})
                              : with_taps(std::integral_constant<int, 2>{});
  else
    fail("Winograd's algorithms are for CPUs");
}

}  // namespace

Expected<Conv> make_winograd_conv(const ConvDesc& desc, Verb verb, int m) {
  KEELSON_EXPECT(m == 2 || m == 4);
  ConvDesc d = desc;
  if (auto why = unfit_for_winograd(d, verb, m); !why.empty()) return why;
  if (auto why = settle_layouts(d); !why.empty()) return why;
  return with_tile<Conv>(d.params.kernel, m, [&]<class Tile>(Tile) -> std::unique_ptr<Conv> {
    if (verb == Verb::forward) return std::make_unique<WinogradForward<Tile>>(d);
    if (verb == Verb::backward_data) return std::make_unique<WinogradBackwardData<Tile>>(d);
    return std::make_unique<WinogradBackwardWeights<Tile>>(d);
  });
}

Expected<ConvMaxPoolForward> make_winograd_conv_max_pool(const ConvMaxPoolForwardDesc& desc, int m) {
  KEELSON_EXPECT(m == 2 || m == 4);
  ConvMaxPoolForwardDesc d = desc;
  if (auto why = unfit_for_winograd(d.conv, Verb::forward, m); !why.empty()) return why;
  if (auto why = settle_layouts(d.conv); !why.empty()) return why;
  if (d.pool.kind != PoolKind::max || !all_are(d.pool.kernel, 2) || !all_are(d.pool.stride, 2) ||
      !all_are(d.pool.pad_begin, 0) || !all_are(d.pool.pad_end, 0))
    return std::string("windows of 2 that stand side by side are needed");
  d.dst.layout = chosen(d.dst, Layout::channels_last(d.dst.shape));
  if (!d.dst.layout.is_channels_last(d.dst.shape)) return std::string("dst has not its channels last");
  return with_tile<ConvMaxPoolForward>(d.conv.params.kernel, m,
                                       [&]<class Tile>(Tile) -> std::unique_ptr<ConvMaxPoolForward> {
                                         return std::make_unique<WinogradConvMaxPool<Tile>>(d);
                                       });
}

int winograd_guess(const ConvDesc& d, Verb verb) {
  // Transformed filters are read once per block of tiles, and written once: many tiles must share in that.
  constexpr std::int64_t filters_per_tile = 4;
  for (const int m : winograd_sizes) {
    if (!unfit_for_winograd(d, verb, m).empty()) continue;
    std::int64_t tiles = d.dst.shape[0];
    for (int i = 2; i < d.dst.shape.rank(); ++i) tiles *= ceil_div(d.dst.shape[i], m);
    if (tiles * filters_per_tile >= d.dst.shape[1]) return m;
  }
  return 0;
}

}  // namespace keelson::kokkos
