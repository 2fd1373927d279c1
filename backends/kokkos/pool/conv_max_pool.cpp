#include "engine/ops/conv_max_pool.hpp"

#include <algorithm>

#include "backends/kokkos/common/caches.hpp"
#include "backends/kokkos/common/sum_slots.hpp"
#include "backends/kokkos/conv/conv_bias.hpp"
#include "backends/kokkos/conv/conv_weights.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/pool/conv_max_pool_data.hpp"
#include "backends/kokkos/pool/conv_max_pool_device.hpp"
#include "backends/kokkos/pool/conv_max_pool_weights.hpp"
#include "engine/base/memory_parts.hpp"
#include "engine/ops/device.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr Index float_bytes = sizeof(float);

PooledGeometry geometry_of(const ConvMaxPoolDesc& d) {
  const Volume src(d.src.shape, d.src.layout), dst(d.dst.shape, d.dst.layout);
  return {src,
          dst.c,
          dst.n,
          three(d.conv.kernel, 1),
          three(d.conv.pad_begin, 0),
          three(d.pool.kernel, 1),
          {dst.extent[0], dst.extent[1], dst.extent[2]}};
}

/// The number of blocks of filters. The weights of a block, for a panel and a plane of taps, fit into the first cache
/// level.
Index filter_blocks(const PooledGeometry& g, Index lanes) {
  const Index bytes_of_filter = g.kernel[1] * g.kernel[2] * lanes * float_bytes;
  const Index most = std::max<Index>(8, first_cache_bytes() * 3 / 4 / bytes_of_filter);
  return ceil_div(g.filters, most);
}

/// Planes of diff_src for a work item of backward data: so many that the time of reading a block's weights is small,
/// but so few that all threads have items.
Index planes_of_item(const PooledGeometry& g, Index panels, Index threads) {
  constexpr Index enough = 1024;
  const Index enough_planes = ceil_div(enough, g.windows[1] * g.windows[2]),
              items = ceil_div(4 * threads, g.n * panels);
  return std::max<Index>(1, std::min(enough_planes, g.src.extent[0] / items));
}

class KokkosConvMaxPool : public ConvMaxPoolBackward {
 public:
  explicit KokkosConvMaxPool(const ConvMaxPoolDesc& d)
      : desc_(d),
        g_(geometry_of(d)),
        runs_(g_),
        tile_(g_, runs_),
        lanes_(panel_lanes_for(g_.src.c)),
        panels_(ceil_div(g_.src.c, lanes_)),
        blocks_(filter_blocks(g_, lanes_)) {
    // The division into sums depends on shapes and caches, so that no sum depends on the number of threads.
    constexpr Index enough_items = 64, most_filters = 64, fewest_filters = 8, most_bytes = Index{4} << 20;
    const Index fewest_parts = ceil_div(g_.filters, most_filters), most_parts = ceil_div(g_.filters, fewest_filters);
    const Index room = std::max<Index>(1, most_bytes / (weights_count() * float_bytes));
    slots_ = std::min({room, ceil_div(enough_items, runs_.panels * fewest_parts), tile_.in_batch(g_.n)});
    const Index threads = space().concurrency(), of_part = slots_ * runs_.panels;
    parts_ = std::min(most_parts, std::max(fewest_parts, ceil_div(4 * threads, of_part)));
    workers_ = std::min(threads, of_part * parts_);
  }

  Layout layout(Verb, Role r) const override { return weighted_layout(desc_, r); }
  std::string name(Verb v) const override {
    return v == Verb::backward_data ? fmt::format("argmax:{}x{}", g_.kernel[1] * g_.kernel[2], lanes_)
                                    : fmt::format("argmax:{}x{}", runs_.segments, runs_.vectors * vector_width);
  }
  Cost cost(Verb) const override {
    const auto taps = static_cast<double>(g_.kernel[0] * g_.kernel[1] * g_.kernel[2] * g_.src.c);
    return {2 * taps * static_cast<double>(desc_.dst.elements()),
            static_cast<double>(desc_.src.bytes() + desc_.weights.bytes() + desc_.dst.bytes()) +
                static_cast<double>(desc_.dst.elements())};
  }
  std::size_t scratch_bytes(Verb v) const override {
    MemoryParts parts(nullptr);
    if (v == Verb::backward_weights) take_for_weights(parts);
    if (v == Verb::backward_data) take_for_data(parts);
    return parts.used();
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, workspace, diff_weights, diff_bias, scratch] = args;
    constexpr const char *add_label = "keelson::conv_max_pool::add_slots", *bias_label = "keelson::conv_max_pool::bias";
    MemoryParts parts(scratch.raw());
    const ForWeights s = take_for_weights(parts);
    auto* const sums = diff_weights.data<float>();
    launch_weights({g_, runs_, tile_, src.data<float>(), src.data<float>() + src.elements(), diff_dst.data<float>(),
                    workspace.data<ArgmaxIndex>(), slots_, parts_, workers_, s.near, s.sums,
                    slots_ == 1 ? sums : s.slots, desc_.conv.bias ? s.bias : nullptr});
    if (slots_ > 1) for_each_block(add_label, weights_count(), SumSlots{s.slots, sums, slots_, weights_count()});
    if (desc_.conv.bias) launch(bias_label, g_.filters, AddBias{s.bias, slots_, g_.filters, diff_bias.data<float>()});
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, workspace, weights, diff_src, scratch] = args;
    constexpr const char *sort_label = "keelson::conv_max_pool::sort", *pack_label = "keelson::conv_max_pool::pack",
                         *label = "keelson::conv_max_pool::backward_data";
    MemoryParts parts(scratch.raw());
    const ForData s = take_for_data(parts);
    launch(sort_label, g_.window_count(),
           SortArgmax{g_, diff_dst.data<float>(), workspace.data<ArgmaxIndex>(), s.sorted});
    launch(pack_label, panels_ * g_.kernel[0] * g_.filters,
           PackWeights{g_, lanes_, panels_, weights.data<float>(), s.weights});
    const Index planes = planes_of_item(g_, panels_, space().concurrency());
    const auto run = [&](auto lanes) {
      launch(label, g_.n * ceil_div(g_.src.extent[0], planes) * panels_,
             PooledData<lanes.value>{g_, s.sorted, s.weights, diff_src.data<float>(), panels_, planes});
    };
    if (lanes_ == 4)
      run(std::integral_constant<int, 4>{});
    else
      run(std::integral_constant<int, vector_width>{});
  }

 private:
  struct ForWeights {
    float *near, *sums, *slots;
    double* bias;
  };
  struct ForData {
    SortedArgmax sorted;
    float* weights;
  };
  Index weights_count() const { return g_.filters * g_.kernel[0] * g_.kernel[1] * g_.kernel[2] * g_.src.c; }

  ForWeights take_for_weights(MemoryParts& parts) const {
    const Index of_filter = g_.kernel[0] * g_.kernel[1] * runs_.padded;
    return {parts.take<float>(workers_ * tile_.floats),
            parts.take<float>(workers_ * ceil_div(g_.filters, parts_) * of_filter),
            parts.take<float>(slots_ > 1 ? slots_ * weights_count() : 0), parts.take<double>(slots_ * g_.filters)};
  }
  ForData take_for_data(MemoryParts& parts) const {
    const Index entries = g_.window_count() * g_.filters;
    return {{blocks_, ceil_div(g_.filters, blocks_),
             parts.take<std::uint16_t>(g_.window_count() * blocks_ * (g_.window_elements() + 1)),
             parts.take<std::uint16_t>(entries), parts.take<float>(entries)},
            parts.take<float>(panels_ * lanes_ * g_.kernel[0] * g_.kernel[1] * g_.kernel[2] * g_.filters)};
  }

  void launch_weights(const PooledWeights& k) const {
    switch (runs_.vectors) {
      case 6:
        return launch_workers<6>(k);
      case 4:
        return launch_workers<4>(k);
      case 3:
        return launch_workers<3>(k);
      case 2:
        return launch_workers<2>(k);
      default:
        return launch_workers<1>(k);
    }
  }
  template <int vectors>
  void launch_workers(const PooledWeights& k) const {
    constexpr const char* label = "keelson::conv_max_pool::backward_weights";
    launch(label, k.workers, PooledWeightsWorker<segments_at_once(vectors), vectors>{k});
  }

  ConvMaxPoolDesc desc_;
  PooledGeometry g_;
  PooledRuns runs_;  ///< for backward weights
  PooledTile tile_;
  Index slots_ = 1, parts_ = 1, workers_ = 1;
  Index lanes_, panels_, blocks_;  ///< backward data: input channels of a panel, panels, blocks of filters
};

}  // namespace

Expected<ConvMaxPoolBackward> make(const ConvMaxPoolDesc& desc) {
  if (!runs_on_host) return make_argmax_weights(desc);
  ConvMaxPoolDesc d = desc;
  if (auto why = unfit_for_argmax(d); !why.empty()) return why;
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
    t->layout = chosen(*t, Layout::channels_last(t->shape));
    if (!t->layout.is_channels_last(t->shape) || !t->layout.is_dense(t->shape))
      return fmt::format("{} is not channels-last", name);
  }
  return std::unique_ptr<ConvMaxPoolBackward>(std::make_unique<KokkosConvMaxPool>(d));
}

}  // namespace keelson::kokkos
