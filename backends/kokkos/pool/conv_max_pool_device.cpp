#include "backends/kokkos/pool/conv_max_pool_device.hpp"

#include <algorithm>

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/common/values.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

using Triple = Kokkos::Array<Index, 3>;

/// Operands and extents of one launch. A slot is a run of `each` windows.
template <class T>
struct ArgmaxItems {
  const T *src, *diff;
  const std::uint8_t* argmax;
  float* sums;  ///< (slot, kernel..., C, O)
  Index filters, src_channels, channels, windows, each, columns;
  Triple extent, pad, window;
  /// divide item numbers: (slot, depth of the kernel, group of channels, filter)
  Divider by_filter, by_group, by_depth;
  Divider windows_d, windows_h, windows_w;  ///< divide window numbers: (n, d, h, w)
  Divider index_h, index_w;                 ///< divide argmax indices
};

/// One filter, one depth of the kernel, `lanes` channels and a slot: edge x edge taps, whose sums stay in registers.
/// Neighbouring items have neighbouring filters, so that they read neighbours of diff and argmax, and src from the same
/// few rows. Traffic: diff and argmax read once for each depth and group, from the caches; sums written once.
template <class T, int lanes, int edge>
struct ArgmaxItem {
  ArgmaxItems<T> k;

  KOKKOS_FUNCTION void operator()(Index slot) const {
    const Index f = k.by_filter.split(slot), group = k.by_group.split(slot), depth = k.by_depth.split(slot);
    float sum[edge * edge][lanes] = {};
    const Index begin = slot * k.each, end = begin + k.each < k.windows ? begin + k.each : k.windows;
    Index n = begin;
    Index w = k.windows_w.split(n), h = k.windows_h.split(n), d = k.windows_d.split(n);
    for (Index i = begin; i < end; ++i) {
      add(i * k.filters + f, n, d, h, w, depth, group * lanes, sum);
      if (++w < k.windows_w.divisor()) continue;
      w = 0;
      if (++h < k.windows_h.divisor()) continue;
      h = 0;
      if (++d < k.windows_d.divisor()) continue;
      d = 0;
      ++n;
    }
    for (int t = 0; t < edge * edge; ++t)
      for (int l = 0; l < lanes; ++l) {
        const Index c = group * lanes + l;
        if (c >= k.channels) continue;  // padding of src
        k.sums[slot * k.columns + ((depth * edge * edge + t) * k.channels + c) * k.filters + f] = sum[t][l];
      }
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION void add(Index at, Index n, Index d, Index h, Index w, Index depth, Index channel,
                                       float (&sum)[edge * edge][lanes]) const {
    const float diff = value_of(k.diff[at]);
    Index in_d = k.argmax[at];
    const Index in_w = k.index_w.split(in_d), in_h = k.index_h.split(in_d);
    const Index z = d * k.window[0] + in_d - k.pad[0] + depth;
    if (z < 0 || z >= k.extent[0]) return;
    Index y = h * k.window[1] - k.pad[1], x = w * k.window[2] - k.pad[2];
    // This is the same for all filters of a window.
    const bool inside =
        y >= 0 && y + k.window[1] + edge - 2 < k.extent[1] && x >= 0 && x + k.window[2] + edge - 2 < k.extent[2];
    y += in_h, x += in_w;
    const Index from = (((n * k.extent[0] + z) * k.extent[1] + y) * k.extent[2] + x) * k.src_channels + channel;
    if (inside)
      add_taps<false>(from, y, x, diff, sum);
    else
      add_taps<true>(from, y, x, diff, sum);
  }

  template <bool at_border>
  KOKKOS_FORCEINLINE_FUNCTION void add_taps(Index from, Index y, Index x, float diff,
                                            float (&sum)[edge * edge][lanes]) const {
    KEELSON_UNROLL
    for (int t = 0; t < edge * edge; ++t) {
      const int dy = t / edge, dx = t % edge;
      if constexpr (at_border)
        if (y + dy < 0 || y + dy >= k.extent[1] || x + dx < 0 || x + dx >= k.extent[2]) continue;
      float v[lanes];
      load(k.src + from + (dy * k.extent[2] + dx) * k.src_channels, v);
      KEELSON_UNROLL
      for (int l = 0; l < lanes; ++l) sum[t][l] += diff * v[l];
    }
  }
};

/// Groups of this many sums are added, in order.
constexpr Index fan = 32;

KOKKOS_FUNCTION inline float sum_of_slots(const float* sums, Index first, Index slots, Index step, Index columns) {
  double sum = 0;
  for (Index s = first; s < slots; s += step) sum += static_cast<double>(sums[s * columns]);
  return static_cast<float>(sum);
}

struct AddArgmaxSlots {
  const float* from;
  float* to;
  Index slots, next;
  Divider by_column;
  KOKKOS_FUNCTION void operator()(Index item) const {
    Index first = item;
    const Index column = by_column.split(first);
    to[item] = sum_of_slots(from + column, first, slots, next, by_column.divisor());
  }
};

/// The last additions, (kernel..., C, O), written in the layout of the weights.
struct AddToWeights {
  const float* from;
  float* weights;
  Strided at;
  Index slots, columns, taps, channels;
  Divider by_filter, by_channel;
  KOKKOS_FUNCTION void operator()(Index column) const {
    Index tap = column;
    const Index f = by_filter.split(tap), c = by_channel.split(tap);
    weights[at.offset((f * channels + c) * taps + tap)] = sum_of_slots(from + column, 0, slots, 1, columns);
  }
};

struct FillArgmax {
  std::uint8_t* argmax;
  std::uint32_t window_size;
  KOKKOS_FUNCTION void operator()(Index i) const {
    auto x = static_cast<std::uint32_t>(i) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    argmax[i] = static_cast<std::uint8_t>((x ^ x >> 13) % window_size);
  }
};

Index pack_of(Index channels) { return channels % 4 == 0 ? 4 : 1; }

template <class T>
ArgmaxItems<T> items_of(const ConvMaxPoolDesc& d) {
  const TensorDesc last{d.src.shape, d.src.dtype, Layout::channels_last(d.src.shape)};
  const Volume src(last.shape, last.layout), dst(d.dst.shape, d.dst.layout);
  ArgmaxItems<T> k{};
  k.filters = dst.c;
  k.channels = src.c;
  k.windows = dst.n * dst.extent[0] * dst.extent[1] * dst.extent[2];
  k.extent = {src.extent[0], src.extent[1], src.extent[2]};
  k.pad = three(d.conv.pad_begin, 0);
  k.window = three(d.pool.kernel, 1);
  k.windows_d = Divider(dst.extent[0], k.windows);
  k.windows_h = Divider(dst.extent[1], k.windows);
  k.windows_w = Divider(dst.extent[2], k.windows);
  k.index_h = Divider(k.window[1], 256);
  k.index_w = Divider(k.window[2], 256);
  return k;
}

template <class T>
void launch_items(const ArgmaxItems<T>& k, Index items, bool packs, Index edge) {
  constexpr const char* label = "keelson::conv_max_pool::argmax_weights";
  if (packs && edge == 3) return launch(label, items, ArgmaxItem<T, 4, 3>{k});
  if (packs) return launch(label, items, ArgmaxItem<T, 4, 1>{k});
  if (edge == 3) return launch(label, items, ArgmaxItem<T, 1, 3>{k});
  launch(label, items, ArgmaxItem<T, 1, 1>{k});
}

class DeviceConvMaxPool : public ConvMaxPoolBackward {
 public:
  explicit DeviceConvMaxPool(const ConvMaxPoolDesc& d) : desc_(d), weights_(d, d.src.shape[1]) {}

  Layout layout(Verb, Role r) const override { return weighted_layout(desc_, r); }
  std::string name(Verb) const override { return "argmax"; }
  std::size_t scratch_bytes(Verb v) const override {
    return v == Verb::backward_weights ? weights_.scratch_bytes() : 0;
  }
  Cost cost(Verb) const override { return weights_.cost(); }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, workspace, diff_weights, diff_bias, scratch] = args;
    weights_.run(src.raw(), diff_dst.raw(), workspace.raw(), diff_weights.data<float>(), scratch.raw());
  }
  void backward_data(const BackwardData<ops::Tensors>&) override {
    fail("the gradient of src was not requested: {}", describe(desc_));
  }

 private:
  ConvMaxPoolDesc desc_;
  ArgmaxWeights weights_;
};

}  // namespace

std::size_t GradientSlots::scratch_bytes() const {
  return static_cast<std::size_t>((slots_ + ceil_div(slots_, fan)) * columns()) * sizeof(float);
}

void GradientSlots::add(float* sums, float* diff_weights) const {
  constexpr const char *add_label = "keelson::conv_max_pool::add_slots",
                       *last_label = "keelson::conv_max_pool::weights";
  float *here = sums, *there = sums + slots_ * columns();
  Index slots = slots_;
  while (slots > fan) {
    const Index next = ceil_div(slots, fan), items = next * columns();
    launch(add_label, items, AddArgmaxSlots{here, there, slots, next, Divider(columns(), items)});
    std::swap(here, there);
    slots = next;
  }
  const Index filters = weights_.shape[0], channels = weights_.shape[1], taps = columns() / (filters * channels);
  launch(last_label, columns(),
         AddToWeights{here, diff_weights, Strided(weights_), slots, columns(), taps, channels,
                      Divider(filters, columns()), Divider(channels, columns())});
}

namespace {

Index argmax_slots(const ConvMaxPoolDesc& d, Index channels) {
  constexpr Index threads = 1 << 17, most_values = 1 << 23, fewest_windows = 16;
  const auto kernel = three(d.conv.kernel, 1);
  const Index windows = d.dst.elements() / d.dst.shape[1];
  const Index per_slot = kernel[0] * ceil_div(d.src.shape[1], pack_of(channels)) * d.dst.shape[1];
  return std::max<Index>(
      1, std::min({threads / per_slot, most_values / d.weights.elements(), ceil_div(windows, fewest_windows)}));
}

}  // namespace

ArgmaxWeights::ArgmaxWeights(const ConvMaxPoolDesc& d, std::int64_t channels)
    : d_(d), channels_(channels), slots_(d, argmax_slots(d, channels)) {}

Cost ArgmaxWeights::cost() const {
  const Index taps = d_.weights.elements() / d_.dst.shape[1];
  return {2 * static_cast<double>(taps) * static_cast<double>(d_.dst.elements()),
          static_cast<double>(d_.src.bytes() + d_.weights.bytes() + d_.dst.bytes() + scratch_bytes()) +
              static_cast<double>(d_.dst.elements())};
}

void ArgmaxWeights::run(const void* src, const void* diff_dst, const void* argmax, float* diff_weights,
                        void* scratch) const {
  const auto kernel = three(d_.conv.kernel, 1);
  auto* sums = static_cast<float*>(scratch);
  with_type(d_.src.dtype, [&](auto type) {
    using T = decltype(type);
    auto k = items_of<T>(d_);
    k.src = static_cast<const T*>(src), k.diff = static_cast<const T*>(diff_dst);
    k.argmax = static_cast<const std::uint8_t*>(argmax);
    k.sums = sums;
    k.src_channels = channels_;
    k.each = ceil_div(k.windows, slots_.slots());
    k.columns = slots_.columns();
    const bool packs = pack_of(channels_) == 4 && aligned(src, 4 * sizeof(T));
    const Index groups = packs ? ceil_div(k.channels, 4) : k.channels,
                items = slots_.slots() * kernel[0] * groups * k.filters;
    k.by_filter = Divider(k.filters, items);
    k.by_group = Divider(groups, items);
    k.by_depth = Divider(kernel[0], items);
    launch_items(k, items, packs, kernel[1]);
  });
  slots_.add(sums, diff_weights);
}

void fill_argmax(void* argmax, std::int64_t count, std::int64_t window_size) {
  constexpr const char* label = "keelson::conv_max_pool::fill_argmax";
  launch(label, count, FillArgmax{static_cast<std::uint8_t*>(argmax), static_cast<std::uint32_t>(window_size)});
}

std::string unfit_for_argmax(const ConvMaxPoolDesc& d) {
  const auto all = [](const Shape& s, Index value) {
    return std::all_of(s.begin(), s.end(), [=](Index v) { return v == value; });
  };
  if (!all(d.conv.stride, 1) || !all(d.conv.dilation, 1) || d.conv.groups != 1)
    return "stride and dilation 1 and one group are needed";
  if (d.pool.kind != PoolKind::max || !(d.pool.kernel == d.pool.stride) || !all(d.pool.pad_begin, 0))
    return "the windows have gaps, overlap or padding";
  if (d.pool.kernel.elements() < 4 || d.pool.kernel.elements() > 256)
    // smaller windows: the dense kernels' FLOP rate outweighs their zeros
    return "windows of 4 to 256 elements are needed";
  if (d.dst.shape[1] > 65535) return "more than 65535 filters";
  return "";
}

std::string unfit_for_argmax_weights(const ConvMaxPoolDesc& d) {
  if (auto why = unfit_for_argmax(d); !why.empty()) return why;
  if (d.diff_src) return "the gradient of src is needed, but the kernel computes only the gradient of the weights";
  if (d.conv.bias) return "the gradient of the bias is left to BiasGradient";
  const auto kernel = three(d.conv.kernel, 1);
  if (kernel[1] != kernel[2] || (kernel[1] != 1 && kernel[1] != 3))
    return "kernels of 1 x 1 or 3 x 3 along the last two dims are needed";
  if (!is_value_type(d.src.dtype)) return fmt::format("src is {}, not f32, bf16 or f16", to_string(d.src.dtype));
  if (d.dst.dtype != d.src.dtype)
    return fmt::format("src is {}, dst {}", to_string(d.src.dtype), to_string(d.dst.dtype));
  if (d.weights.dtype != DType::f32) return fmt::format("weights are {}, not f32", to_string(d.weights.dtype));
  const auto is_last = [](const TensorDesc& t) { return t.layout == Layout::channels_last(t.shape); };
  if (!is_last(d.dst)) return "dst is not channels-last";
  if (d.weights.layout.is_opaque()) return "weights have a layout of another backend";
  if (d.dst.elements() == 0) return "there are no windows";
  return "";
}

Expected<ConvMaxPoolBackward> make_argmax_weights(const ConvMaxPoolDesc& desc) {
  if (auto why = unfit_for_argmax_weights(desc); !why.empty()) return why;
  if (!(desc.src.layout == Layout::channels_last(desc.src.shape))) return std::string("src is not channels-last");
  ConvMaxPoolDesc d = desc;
  d.weights.layout = chosen(d.weights, Layout::channels_last(d.weights.shape));
  return std::unique_ptr<ConvMaxPoolBackward>(std::make_unique<DeviceConvMaxPool>(d));
}

}  // namespace keelson::kokkos
