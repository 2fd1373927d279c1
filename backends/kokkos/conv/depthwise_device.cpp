#include "backends/kokkos/conv/depthwise_device.hpp"

#include <algorithm>

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/values.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr int side = 3, taps = side * side;

/// Where the taps of a result read.
struct Plane {
  std::int32_t rows, columns;  ///< of src
  std::int32_t stride[2], dilation[2], pad[2];
  Index channels;

  explicit Plane(const ConvDesc& d)
      : rows(static_cast<std::int32_t>(d.src.shape[2])),
        columns(static_cast<std::int32_t>(d.src.shape[3])),
        channels(d.src.shape[1]) {
    for (int i = 0; i < 2; ++i) {
      stride[i] = static_cast<std::int32_t>(d.params.stride[i]);
      dilation[i] = static_cast<std::int32_t>(d.params.dilation[i]);
      pad[i] = static_cast<std::int32_t>(d.params.pad_begin[i]);
    }
  }
  /// The element of src that tap (a, b) of result (y, x) of a sample reads; -1: outside.
  KOKKOS_FORCEINLINE_FUNCTION Index element(Index sample, std::int32_t y, std::int32_t x, int a, int b) const {
    const std::int32_t row = y * stride[0] - pad[0] + a * dilation[0],
                       column = x * stride[1] - pad[1] + b * dilation[1];
    if (row < 0 || row >= rows || column < 0 || column >= columns) return -1;
    return (sample * rows + row) * columns + column;
  }
};

/// (C, taps) -> (taps, C), in f32: neighbouring threads have neighbouring channels.
template <class T>
struct TurnWeights {
  const T* weights;
  float* turned;
  Divider by_channels;
  KOKKOS_FUNCTION void operator()(Index item) const {
    Index tap = item;
    const Index channel = by_channels.split(tap);
    turned[item] = value_of(weights[channel * taps + tap]);
  }
};

/// An item makes some neighbouring results along a row, for a pack of channels. Traffic: src and dst once; the taps of
/// neighbouring results are in the cache.
template <class T, int N>
struct DepthwiseForward {
  static constexpr int results = 4;
  Plane plane;
  const T* src;
  const float* weights;  ///< (taps, C)
  T* dst;
  Divider by_packs, by_runs, by_rows;  ///< packs of channels; runs of results in a row; rows of dst
  std::int32_t width;                  ///< of dst

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index channel = by_packs.split(item) * N;
    const auto x = static_cast<std::int32_t>(by_runs.split(item)) * results;
    const auto y = static_cast<std::int32_t>(by_rows.split(item));
    float sum[results][N] = {};
    for (int a = 0; a < side; ++a)
      for (int b = 0; b < side; ++b) {
        float w[N];
        for (int l = 0; l < N; ++l) w[l] = weights[(a * side + b) * plane.channels + channel + l];
        for (int r = 0; r < results; ++r) {
          const Index at = plane.element(item, y, x + r, a, b);
          if (at < 0) continue;
          float v[N];
          load(src + at * plane.channels + channel, v);
          for (int l = 0; l < N; ++l) sum[r][l] += v[l] * w[l];
        }
      }
    const Index first = (item * by_rows.divisor() + y) * width;
    for (int r = 0; r < results; ++r)
      if (x + r < width) store(dst + (first + x + r) * plane.channels + channel, sum[r]);
  }
};

/// An item adds a run of neighbouring positions, for a pack of channels. Traffic: src and diff_dst once.
template <class T, int N>
struct DepthwiseWeights {
  Plane plane;
  const T *src, *diff;
  float* sums;  ///< (slot, taps, C)
  Divider by_packs;
  Index positions, each;
  std::int32_t height, width;  ///< of dst

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index channel = by_packs.split(item) * N, begin = item * each;
    const Index end = begin + each < positions ? begin + each : positions;
    float sum[taps][N] = {};
    Index sample = begin / (static_cast<Index>(height) * width);
    const auto rest = static_cast<std::int32_t>(begin - sample * height * width);
    std::int32_t y = rest / width, x = rest % width;
    for (Index p = begin; p < end; ++p) {
      float g[N];
      load(diff + p * plane.channels + channel, g);
      for (int a = 0; a < side; ++a)
        for (int b = 0; b < side; ++b) {
          const Index at = plane.element(sample, y, x, a, b);
          if (at < 0) continue;
          float v[N];
          load(src + at * plane.channels + channel, v);
          for (int l = 0; l < N; ++l) sum[a * side + b][l] += v[l] * g[l];
        }
      if (++x < width) continue;
      x = 0;
      if (++y < height) continue;
      y = 0;
      ++sample;
    }
    for (int t = 0; t < taps; ++t)
      for (int l = 0; l < N; ++l) sums[(item * taps + t) * plane.channels + channel + l] = sum[t][l];
  }
};

/// Adds every `next`-th slot; the last launch turns (taps, C) to (C, taps).
struct AddSlots {
  const float* from;
  float* to;
  Index slots, next, channels;
  Divider by_columns;
  KOKKOS_FUNCTION void operator()(Index item) const {
    Index s = item;
    const Index column = by_columns.split(s), columns = by_columns.divisor();
    constexpr int ahead = 8;  // values that are read before the first of them is added
    float sum = 0;
    for (; s + (ahead - 1) * next < slots; s += ahead * next) {
      float values[ahead];
      for (int k = 0; k < ahead; ++k) values[k] = from[(s + k * next) * columns + column];
      for (int k = 0; k < ahead; ++k) sum += values[k];
    }
    for (; s < slots; s += next) sum += from[s * columns + column];
    to[next > 1 ? item : column % channels * taps + column / channels] = sum;
  }
};

constexpr Index slot_fan = 32;

}  // namespace

std::string DepthwiseDevice::unfit(const ConvDesc& d) {
  const auto& p = d.params;
  if (d.src.shape.rank() != 4 || !(p.kernel == Shape{side, side})) return "the kernel is not 3 x 3";
  if (p.groups != d.src.shape[1] || d.dst.shape[1] != p.groups) return "the channels are not the groups";
  if (!is_value_type(d.src.dtype) || d.dst.dtype != d.src.dtype || d.weights.dtype != d.src.dtype)
    return "the operands have different types";
  if (p.groups % (16 / static_cast<Index>(size_of(d.src.dtype))) != 0)
    return "the channels do not fill packs of 16 bytes";
  if (d.writes_diff_bias()) return "it has no gradient of the bias";
  for (const auto* t : {&d.src, &d.dst})
    if (t->elements() / t->shape[1] > Index{INT32_MAX}) return "there are more than 2^31 positions";
  return "";
}

DepthwiseDevice::DepthwiseDevice(const ConvDesc& d)
    : d_(d), channels_(d.src.shape[1]), positions_(d.dst.elements() / d.dst.shape[1]) {
  // Enough items for the whole GPU, but sums that are small beside src.
  const Index packs = channels_ * static_cast<Index>(size_of(d.src.dtype)) / 16;
  slots_ = std::clamp<Index>((Index{1} << 15) / std::max<Index>(packs, 1), 1, ceil_div(positions_, 32));
}

std::size_t DepthwiseDevice::forward_scratch_bytes() const {
  return static_cast<std::size_t>(taps * channels_) * sizeof(float);
}

std::size_t DepthwiseDevice::weights_scratch_bytes() const {
  return static_cast<std::size_t>((slots_ + ceil_div(slots_, slot_fan)) * taps * channels_) * sizeof(float);
}

void DepthwiseDevice::forward(const void* src, const void* weights, void* dst, void* scratch) const {
  auto* turned = static_cast<float*>(scratch);
  with_type(d_.src.dtype, [&](auto tag) {
    using T = decltype(tag);
    constexpr int N = pack_width<T>;
    launch("keelson::depthwise::weights", taps * channels_,
           TurnWeights<T>{static_cast<const T*>(weights), turned, Divider(channels_, taps * channels_)});
    constexpr Index results = DepthwiseForward<T, N>::results;
    const Index height = d_.dst.shape[2], width = d_.dst.shape[3], packs = channels_ / N;
    const Index runs = ceil_div(width, results), items = d_.dst.shape[0] * height * runs * packs;
    launch("keelson::depthwise::forward", items,
           DepthwiseForward<T, N>{Plane(d_), static_cast<const T*>(src), turned, static_cast<T*>(dst),
                                  Divider(packs, items), Divider(runs, items), Divider(height, items),
                                  static_cast<std::int32_t>(width)});
  });
}

void DepthwiseDevice::backward_weights(const void* src, const void* diff_dst, float* diff_weights,
                                       void* scratch) const {
  const Index columns = taps * channels_;
  auto *here = static_cast<float*>(scratch), *there = here + slots_ * columns;
  with_type(d_.src.dtype, [&](auto tag) {
    using T = decltype(tag);
    constexpr int N = pack_width<T>;
    const Index packs = channels_ / N;
    launch(
        "keelson::depthwise::slots", slots_ * packs,
        DepthwiseWeights<T, N>{Plane(d_), static_cast<const T*>(src), static_cast<const T*>(diff_dst), here,
                               Divider(packs, slots_ * packs), positions_, ceil_div(positions_, slots_),
                               static_cast<std::int32_t>(d_.dst.shape[2]), static_cast<std::int32_t>(d_.dst.shape[3])});
  });
  Index slots = slots_;
  do {
    const Index next = ceil_div(slots, slot_fan);
    launch("keelson::depthwise::add_slots", next * columns,
           AddSlots{here, next > 1 ? there : diff_weights, slots, next, channels_, Divider(columns, next * columns)});
    std::swap(here, there);
    slots = next;
  } while (slots > 1);
}

}  // namespace keelson::kokkos
