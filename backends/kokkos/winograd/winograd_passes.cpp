#include "backends/kokkos/winograd/winograd_passes.hpp"

#include <algorithm>
#include <cmath>

#include "backends/kokkos/common/caches.hpp"
#include "backends/kokkos/common/sum_slots.hpp"
#include "backends/kokkos/winograd/winograd_few_channels.hpp"
#include "backends/kokkos/winograd/winograd_weights.hpp"
#include "engine/base/error.hpp"
#include "engine/base/memory_parts.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The strides of weights with the spatial dims last.
struct WeightStrides {
  Index filter, channel;
  Triple tap;

  explicit WeightStrides(const Tensor& w)
      : filter(w.layout().strides()[0]), channel(w.layout().strides()[1]), tap{0, 0, 0} {
    const int spatial = w.shape().rank() - 2;
    for (int i = 0; i < spatial; ++i) tap[3 - spatial + i] = w.layout().strides()[2 + i];
  }
};

/// Writes U with panels of `width` columns; by_lines: see TransformFilters. turned: for the pass for diff_src.
template <class Tile, int width, bool by_lines = false>
void transform_filters(const Tensor& weights, bool turned, Index inner, Index columns, float* u) {
  constexpr const char* label = "keelson::winograd::filters";
  const WeightStrides s(weights);
  Index first = 0;
  Triple tap = s.tap;
  if (turned)
    for (int i = 0; i < 3; ++i) {
      first += (Tile::taps_of[i] - 1) * tap[i];
      tap[i] = -tap[i];
    }
  const Index inner_stride = turned ? s.filter : s.channel, column_stride = turned ? s.channel : s.filter;
  const auto transform = [&]<class T>(const T* data) {
    launch(
        label, ceil_div(columns, Index{width}) * inner,
        TransformFilters<Tile, T, width, by_lines>{data + first, inner, columns, inner_stride, column_stride, tap, u});
  };
  if (weights.dtype() == DType::bf16)
    transform(weights.data<bf16>());
  else
    transform(weights.data<float>());
}

template <class Tile>
WinogradGrid grid_of(const TensorDesc& in, const TensorDesc& out, const Triple& pad) {
  return WinogradGrid(Volume(in.shape, in.layout), Volume(out.shape, out.layout), pad, Tile::results);
}

/// The number of zeros before diff_dst in the pass for diff_src.
template <class Tile>
Triple turned_pad(Triple pad) {
  for (int i = 0; i < 3; ++i) pad[i] = Tile::taps_of[i] - 1 - pad[i];
  return pad;
}

template <class Tile>
class TilePass final : public WinogradPass {
 public:
  TilePass(const ConvDesc& d, Verb verb)
      : turned_(verb == Verb::backward_data),
        grid_(turned_ ? grid_of<Tile>(d.dst, d.src, turned_pad<Tile>(three(d.params.pad_begin, 0)))
                      : grid_of<Tile>(d.src, d.dst, three(d.params.pad_begin, 0))),
        inner_(grid_.in.c),
        columns_(grid_.out.c),
        wide_(columns_ > vector_width),
        panels_(ceil_div(columns_, lanes())),
        workers_(space().concurrency()) {
    const auto bytes_of = [&](Index block) { return static_cast<std::size_t>(scratch_of(block)) * sizeof(float); };
    constexpr Index most_rows = 8;  // of tiles in a block
    block_ = tile_rows;
    while (block_ < most_rows * tile_rows &&
           bytes_of(block_ + tile_rows) <= static_cast<std::size_t>(second_cache_bytes()) / 2)
      block_ += tile_rows;
    block_ = std::min(block_, ceil_div(grid_.tile_count, tile_rows) * tile_rows);
    cut_panels();
  }

  TileSource source(const void* data, DType type) const override { return TileSource(data, type, grid_.in); }
  WinogradOutput output(float* dst) const override { return {dst, grid_.out}; }
  std::size_t scratch_bytes() const override {
    MemoryParts parts(nullptr);
    parts.take<float>(filters_floats()), parts.take<float>(scratch_floats());
    return parts.used();
  }

  void run(const TileSource& source, const Tensor& weights, const WinogradOutput& output,
           void* scratch) const override {
    MemoryParts parts(scratch);
    float* const u = parts.take<float>(filters_floats());
    float* const of_workers = parts.take<float>(scratch_floats());
    const auto launch_with = [&]<int width>(std::integral_constant<int, width>) {
      constexpr const char* label = "keelson::winograd::tiles";
      transform_filters<Tile, width>(weights, turned_, inner_, columns_, u);
      launch(label, workers_,
             WinogradTiles<Tile, width>{grid_, source, u, inner_, columns_, block_, panels_, groups_, workers_,
                                        of_workers, output});
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
  Index filters_floats() const { return Tile::points * inner_ * panels_ * lanes(); }
  Index scratch_floats() const { return workers_ * scratch_of(block_); }

  /// If there are fewer tiles than workers, workers divide the panels, too. Each group of panels transforms its tiles
  /// again.
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

  bool turned_;
  WinogradGrid grid_;
  Index inner_, columns_;
  bool wide_;
  Index panels_, workers_, block_ = 0, groups_ = 1;
};

template <class Tile>
class FewChannelsPass final : public WinogradPass {
 public:
  explicit FewChannelsPass(const ConvDesc& d)
      : grid_(grid_of<Tile>(d.src, d.dst, three(d.params.pad_begin, 0))),
        panels_(ceil_div(grid_.out.c, Index{vector_width})),
        workers_(std::min<Index>(space().concurrency(), Kernel::groups(grid_))) {}

  TileSource source(const void* data, DType type) const override { return TileSource(data, type, grid_.in); }
  WinogradOutput output(float* dst) const override { return {dst, grid_.out}; }
  std::size_t scratch_bytes() const override {
    MemoryParts parts(nullptr);
    parts.take<float>(filters_floats()), parts.take<float>(workers_ * Kernel::scratch_of_worker());
    return parts.used();
  }
  void run(const TileSource& source, const Tensor& weights, const WinogradOutput& output,
           void* scratch) const override {
    constexpr const char* label = "keelson::winograd::few_channels";
    MemoryParts parts(scratch);
    float* const u = parts.take<float>(filters_floats());
    float* const of_workers = parts.take<float>(workers_ * Kernel::scratch_of_worker());
    transform_filters<Tile, vector_width, true>(weights, false, grid_.in.c, grid_.out.c, u);
    launch(label, workers_, Kernel{grid_, source, u, panels_, workers_, of_workers, output});
  }

 private:
  using Kernel = WinogradFewChannels<Tile>;
  Index filters_floats() const { return Tile::points * grid_.in.c * panels_ * vector_width; }

  WinogradGrid grid_;
  Index panels_, workers_;
};

template <class Tile>
class WeightsPass final : public WinogradWeightsPass {
 public:
  explicit WeightsPass(const ConvDesc& d)
      : grid_(grid_of<Tile>(d.src, d.dst, three(d.params.pad_begin, 0))),
        channels_(grid_.in.c),
        filters_(grid_.out.c),
        wide_(filters_ > vector_width),
        panels_(ceil_div(filters_, lanes())),
        weights_floats_(d.weights.elements()) {
    // The division into sums depends on shapes and caches, so that no sum depends on the number of threads.
    const Index floats_of_tile = Tile::points * (channels_ + padded_filters());
    const Index cache = second_cache_bytes() / Index{sizeof(float)};
    if (sums_floats() <= cache / 2 && d.weights.layout.is_dense(d.weights.shape)) {
      constexpr Index most_slots = 32, most_floats = Index{4} << 20, fewest_tiles = 12;
      slots_ =
          std::clamp<Index>(std::min(most_floats / weights_floats_, grid_.tile_count / fewest_tiles), 1, most_slots);
      block_ = std::max((cache * 3 / 4 - sums_floats()) / floats_of_tile, fewest_tiles);
    } else {
      constexpr Index most_floats = Index{1} << 20, fewest_tiles = 64;
      block_ = std::max(most_floats / floats_of_tile, fewest_tiles);
    }
    block_ = std::min(block_, ceil_div(grid_.tile_count, slots_));
    if (slots_ == 1) block_ = ceil_div(grid_.tile_count, ceil_div(grid_.tile_count, block_));  // blocks of one size
    workers_ = std::min<Index>(space().concurrency(), slots_);
  }

  TileSource gradient(const float* diff_dst) const override { return TileSource(diff_dst, DType::f32, grid_.out); }
  std::size_t scratch_bytes() const override {
    MemoryParts parts(nullptr);
    take(parts);
    return parts.used();
  }
  void run(const float* src, const TileSource& gradient, const Tensor& diff_weights, void* scratch) const override {
    MemoryParts parts(scratch);
    const Parts p = take(parts);
    const TileSource source(src, DType::f32, grid_.in);
    if (wide_)
      run<max_lanes>(source, gradient, diff_weights, p);
    else
      run<vector_width>(source, gradient, diff_weights, p);
  }

 private:
  /// Of all workers, or of all slots.
  struct Parts {
    TransformedTiles v, d;
    float *sums, *slots;
  };

  Index lanes() const { return wide_ ? max_lanes : vector_width; }
  Index padded_filters() const { return panels_ * lanes(); }
  Index sums_floats() const { return Tile::points * padded_filters() * channels_; }

  Parts take(MemoryParts& parts) const {
    constexpr Index gap = 16;
    const auto tiles = [&](Index channels, Index lanes) {
      const Index of_panel = block_ * lanes, padded = ceil_div(channels, lanes) * of_panel;
      TransformedTiles t{nullptr, padded + gap, channels, lanes, of_panel};
      t.data = parts.take<float>(workers_ * SlotsOfWeights<Tile, max_lanes>::floats_of(t));
      return t;
    };
    const TransformedTiles v = tiles(channels_, vector_width), d = tiles(filters_, lanes());
    float* const sums = parts.take<float>(workers_ * sums_floats());
    return {v, d, sums, slots_ > 1 ? parts.take<float>(slots_ * weights_floats_) : nullptr};
  }

  template <int width>
  void run(const TileSource& source, const TileSource& gradient, const Tensor& diff_weights, const Parts& p) const {
    constexpr const char *slots_label = "keelson::winograd::weights", *add_label = "keelson::winograd::add_slots",
                         *label = "keelson::winograd::sums";
    const WeightStrides s(diff_weights);
    auto* const to = diff_weights.data<float>();
    const TransformSums<Tile, width> end{p.sums,    panels_,  channels_, filters_, slots_ > 1 ? p.slots : to,
                                         s.channel, s.filter, s.tap};
    if (slots_ == 1) {
      add_blocks<width>(source, gradient, p);
      launch(label, panels_ * channels_, end);
      return;
    }
    launch(slots_label, workers_,
           SlotsOfWeights<Tile, width>{grid_, source, gradient, p.v, p.d, block_, end, weights_floats_, slots_,
                                       workers_, p.sums});
    for_each_block(add_label, weights_floats_, SumSlots{p.slots, to, slots_, weights_floats_});
  }
  /// All threads on one block after the other.
  template <int width>
  void add_blocks(const TileSource& source, const TileSource& gradient, const Parts& p) const {
    constexpr const char *transform_label = "keelson::winograd::gradients",
                         *multiply_label = "keelson::winograd::products";
    constexpr Index tiles_per_item = 4;
    for (Index first = 0; first < grid_.tile_count; first += block_) {
      const Index count = std::min(block_, grid_.tile_count - first);
      launch(transform_label, ceil_div(count, tiles_per_item),
             TransformTiles<Tile>{grid_, source, gradient, p.v, p.d, first, count, tiles_per_item});
      launch(multiply_label, Tile::points * panels_,
             MultiplyTiles<Tile, width>{p.v, p.d, count, panels_, first == 0, p.sums});
    }
  }

  WinogradGrid grid_;
  Index channels_, filters_;
  bool wide_;
  Index panels_, weights_floats_;
  Index slots_ = 1, block_ = 1, workers_ = 1;  ///< block_: tiles
};

bool all_are(const Shape& s, std::int64_t value) {
  return std::all_of(s.begin(), s.end(), [=](auto v) { return v == value; });
}

/// Whether there is an algorithm with tiles of m for kernels of r.
bool has_tile(std::int64_t r, int m) { return r == 3 ? m == 4 || m == 2 : r == 4 ? m == 3 : r == 5 && m == 2; }

/// Calls make(Tile) for the tile with m results along each of the spatial dims.
template <class Pass, class Make>
std::unique_ptr<Pass> with_tile(const Shape& kernel, int m, const Make& make) {
  [[maybe_unused]] const auto with_taps = [&]<int spatial>(std::integral_constant<int, spatial>) {
    if (kernel[0] == 5) return make(WinogradTile<spatial, 2, 5>{});
    if (kernel[0] == 4) return make(WinogradTile<spatial, 3, 4>{});
    if (m == 4) return make(WinogradTile<spatial, 4, 3>{});
    return make(WinogradTile<spatial, 2, 3>{});
  };
  if constexpr (runs_on_host)  // there are no kernels for GPUs
    return kernel.rank() == 3 ? with_taps(std::integral_constant<int, 3>{})
                              : with_taps(std::integral_constant<int, 2>{});
  else
    fail("Winograd's algorithms are for CPUs");
}

}  // namespace

namespace {

/// Of the results of the forward pass and of backward_data, and of weight gradients: Primitive::relative_error().
struct TileErrors {
  double results, weights;
};

/// As tests/ops/winograd.cpp measures. Larger tiles have larger numbers in their transforms. If a pooling with maxima
/// follows, most gradients are zero; direct sums have few terms then, and smaller errors.
TileErrors tile_errors(const Shape& kernel, int m, bool unpooled) {
  if (kernel[0] + m - 1 <= 4) return {1, 1.5};
  if (kernel.rank() == 2) return unpooled ? TileErrors{3.2, 3.2} : TileErrors{1.5, 2.3};
  if (kernel[0] == 5) return unpooled ? TileErrors{4.3, 7} : TileErrors{2, 5.5};
  if (kernel[0] == 4) return unpooled ? TileErrors{4.5, 4.7} : TileErrors{2, 3};
  return unpooled ? TileErrors{5.5, 5} : TileErrors{2.7, 3.2};
}

}  // namespace

FastAlgorithm winograd_algorithm(const Shape& kernel, int m, Verb verb, bool unpooled) {
  FastAlgorithm a;
  a.name = kernel.rank() == 3 ? fmt::format("winograd:{}x{}x{}", m, m, m) : fmt::format("winograd:{}x{}", m, m);
  if (unpooled) a.name += " of unpooled tiles";
  const auto taps = static_cast<double>(kernel[0]);
  a.times_fewer = unpooled ? 1 : std::pow(taps * m / (taps + m - 1), kernel.rank());
  const TileErrors errors = tile_errors(kernel, m, unpooled);
  a.relative_error = verb == Verb::backward_weights ? errors.weights : errors.results;
  return a;
}

std::string unfit_for_winograd(const ConvDesc& d, Verb verb, int m) {
  const auto& p = d.params;
  if (!runs_on_host) return "Winograd's algorithms are for CPUs";
  if (d.exact) return "exact sums were requested";
  if (p.kernel.rank() < 2 || p.kernel.rank() > 3 || !all_are(p.kernel, p.kernel[0]) || !has_tile(p.kernel[0], m))
    return fmt::format("the kernel is {}; tiles of {} are for {} along 2 or 3 dims", to_string(p.kernel), m,
                       m == 4   ? "3"
                       : m == 3 ? "4"
                                : "3 or 5");
  if (!all_are(p.stride, 1) || !all_are(p.dilation, 1) || p.groups != 1)
    return fmt::format("stride {}, dilation {} and {} groups; 1 of each is needed", to_string(p.stride),
                       to_string(p.dilation), p.groups);
  for (const auto* pads : {&p.pad_begin, &p.pad_end})
    for (int i = 0; i < p.kernel.rank(); ++i)
      if ((*pads)[i] >= p.kernel[i])
        return fmt::format("padding {}; it must be less than the kernel's {} taps", (*pads)[i], p.kernel[i]);
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    TensorDesc as_f32 = *t;
    if (verb == Verb::forward && t != &d.dst && t->dtype == DType::bf16) as_f32.dtype = DType::f32;
    if (auto why = not_strided_f32(name, as_f32); !why.empty()) return why;
  }
  const Index c = d.src.shape[1], o = d.dst.shape[1];
  const bool any_source = verb == Verb::forward && c % 4 == 0;
  constexpr Index multiple = std::max(4, vector_width);  // the products take 4 channels at a time
  if (o % multiple != 0 || (c % multiple != 0 && !any_source))
    return fmt::format("{} to {} channels; multiples of {} are needed", c, o, multiple);
  return "";
}

std::string settle_winograd_layouts(ConvDesc& d) {
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    t->layout = chosen(*t, Layout::channels_last(t->shape));
    const bool channels_last = t->shape[1] == 1 || t->layout.strides()[1] == 1;
    if (t != &d.weights && !channels_last) return fmt::format("{} is not channels-last", name);
  }
  return "";
}

std::unique_ptr<WinogradPass> make_winograd_pass(const ConvDesc& d, Verb verb, int m) {
  return with_tile<WinogradPass>(d.params.kernel, m, [&]<class Tile>(Tile) -> std::unique_ptr<WinogradPass> {
    if constexpr (Tile::points_of[0] > 1)  // lines along d
      if (verb == Verb::forward && d.src.shape[1] == WinogradFewChannels<Tile>::channels)
        return std::make_unique<FewChannelsPass<Tile>>(d);
    return std::make_unique<TilePass<Tile>>(d, verb);
  });
}

std::unique_ptr<WinogradWeightsPass> make_winograd_weights_pass(const ConvDesc& d, int m) {
  return with_tile<WinogradWeightsPass>(
      d.params.kernel, m,
      [&]<class Tile>(Tile) -> std::unique_ptr<WinogradWeightsPass> { return std::make_unique<WeightsPass<Tile>>(d); });
}

}  // namespace keelson::kokkos
