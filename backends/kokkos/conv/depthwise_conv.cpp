#include "backends/kokkos/conv/depthwise_conv.hpp"

#include <algorithm>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/conv/conv_geometry.hpp"
#include "backends/kokkos/norm/channels.hpp"

/// The kernels process a few neighbouring channels at once, one vector wide, and keep the sums in registers.
namespace keelson::kokkos {
namespace {

using namespace ops;

constexpr int channel_lanes = vector_width == 1 ? 4 : vector_width;
/// Independent sums: results along W, or taps along W.
constexpr int chains = vector_width == 1 ? 1 : 4, tap_chains = 3;

/// Some neighbouring channels: all lanes, or only the first `valid` lanes for the last channels.
template <bool all>
struct Block {
  int valid;

  using Vec = Lanes<channel_lanes>;
  KOKKOS_FORCEINLINE_FUNCTION Vec load(const float* p) const {
    Vec v;
    if constexpr (all) {
      v.load(p);
    } else {
      float part[channel_lanes] = {};
      for (int i = 0; i < valid; ++i) part[i] = p[i];
      v.load(part);
    }
    return v;
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(const Vec& v, float* p) const {
    if constexpr (all) return v.store(p);
    float part[channel_lanes];
    v.store(part);
    for (int i = 0; i < valid; ++i) p[i] = part[i];
  }
  KOKKOS_FORCEINLINE_FUNCTION Vec zero() const {
    const float zeros[channel_lanes] = {};
    Vec v;
    v.load(zeros);
    return v;
  }
};

/// Calls use(Block) for channels c and following.
template <class Use>
KOKKOS_FORCEINLINE_FUNCTION void with_block(Index c, Index channels, const Use& use) {
  if (channels - c >= channel_lanes)
    use(Block<true>{channel_lanes});
  else
    use(Block<false>{static_cast<int>(channels - c)});
}

/// In one dim, tap k of result x reads source coordinate x step + begin + k tap.
struct Reach {
  Index step, begin, tap, taps;
  Index extent;  ///< extent of the source

  KOKKOS_FORCEINLINE_FUNCTION bool inside(Index at) const { return at >= 0 && at < extent; }
  /// [first, last): the taps that read inside the source. There may be many taps outside, but none between two inside.
  KOKKOS_FORCEINLINE_FUNCTION void valid_taps(Index x, Index& first, Index& last) const {
    const Index at = x * step + begin;
    first = 0, last = taps;
    while (first < last && !inside(at + first * tap)) ++first;
    while (last > first && !inside(at + (last - 1) * tap)) --last;
  }
};

/// A tensor with contiguous channels.
struct Positions {
  Index n, step[3];
  explicit Positions(const Volume& v) : n(v.stride_n), step{v.stride[0], v.stride[1], v.stride[2]} {}
};

/// dst[x][c] = sum over taps of src[reached by x and tap][c] * weights[tap][c]. A work item computes one line along W
/// and a few channels; on a GPU, one position.
struct Gather {
  const float *src, *weights;
  float* dst;
  Index n, channels, extent[3];  ///< of the results
  Reach reach[3];
  Index weights_step[3];
  Positions from, to;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index blocks = ceil_div(channels, channel_lanes), c = item % blocks * channel_lanes;
    item /= blocks;
    Index begin = 0, end = extent[2];
    if constexpr (!runs_on_host) {
      begin = item % extent[2], end = begin + 1;
      item /= extent[2];
    }
    const Index y = item % extent[1];
    item /= extent[1];
    const Index z = item % extent[0], image = item / extent[0];
    Taps t;
    reach[0].valid_taps(z, t.first[0], t.last[0]);
    reach[1].valid_taps(y, t.first[1], t.last[1]);
    const float* line = src + image * from.n + c + (z * reach[0].step + reach[0].begin) * from.step[0] +
                        (y * reach[1].step + reach[1].begin) * from.step[1] + reach[2].begin * from.step[2];
    float* results = dst + image * to.n + z * to.step[0] + y * to.step[1] + c;
    with_block(c, channels, [&](auto block) { sweep(block, line, weights + c, results, t, begin, end); });
  }

 private:
  struct Taps {
    Index first[3], last[3];
  };

  /// The results [begin, end) of one line; several at a time if all taps along W read inside.
  template <class Block>
  KOKKOS_FORCEINLINE_FUNCTION void sweep(Block block, const float* line, const float* w, float* results, Taps t,
                                         Index begin, Index end) const {
    for (Index x = begin; x < end;) {
      reach[2].valid_taps(x, t.first[2], t.last[2]);
      const auto all = [&](Index at) {
        return reach[2].inside(at * reach[2].step + reach[2].begin) &&
               reach[2].inside(at * reach[2].step + reach[2].begin + (reach[2].taps - 1) * reach[2].tap);
      };
      if (x + chains <= end && all(x) && all(x + chains - 1)) {
        sum<chains>(block, line, w, results, t, x);
        x += chains;
      } else {
        sum<1>(block, line, w, results, t, x++);
      }
    }
  }

  template <int count, class Block>
  KOKKOS_FORCEINLINE_FUNCTION void sum(Block block, const float* line, const float* w, float* results, const Taps& t,
                                       Index x) const {
    const Index between = reach[2].step * from.step[2];
    typename Block::Vec total[count];
    KEELSON_UNROLL
    for (int r = 0; r < count; ++r) total[r] = block.zero();
    for (Index i = t.first[0]; i < t.last[0]; ++i)
      for (Index j = t.first[1]; j < t.last[1]; ++j) {
        const float* row = line + i * reach[0].tap * from.step[0] + j * reach[1].tap * from.step[1] + x * between;
        const float* filter = w + i * weights_step[0] + j * weights_step[1];
        for (Index k = t.first[2]; k < t.last[2]; ++k) {
          const auto weight = block.load(filter + k * weights_step[2]);
          const float* at = row + k * reach[2].tap * from.step[2];
          KEELSON_UNROLL
          for (int r = 0; r < count; ++r) total[r].add_product(block.load(at + r * between), weight);
        }
      }
    KEELSON_UNROLL
    for (int r = 0; r < count; ++r) block.store(total[r], results + (x + r) * to.step[2]);
  }
};

/// Channels that belong to a work item, and the most positions of a line that it takes before the next channels: on a
/// CPU, values that are read again stay in the first cache level also where positions lie a power of two bytes apart.
constexpr Index group_channels = runs_on_host ? 64 : channel_lanes;
constexpr Index most_tile_positions = runs_on_host ? 24 : Index{1} << 30;

/// partial[slot][tap][c] = sum over the slot's positions of src[reached][c] * diff[position][c].
struct SlotSums {
  const float *src, *diff;
  float* partial;
  Index channels, extent[3], lines, lines_per_slot, slots;
  Reach reach[3];
  Positions from, at;

  /// Neighbouring items have neighbouring lines of the same channels.
  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index slot = item % slots, group = item / slots * group_channels;
    const Index end_group = group + group_channels < channels ? group + group_channels : channels;
    const Index taps = reach[0].taps * reach[1].taps * reach[2].taps;
    float* sums = partial + slot * taps * channels;
    for (Index t = 0; t < taps; ++t)
      for (Index c = group; c < end_group; ++c) sums[t * channels + c] = 0;
    const Index end = slot * lines_per_slot + lines_per_slot, last = end < lines ? end : lines;
    for (Index line = slot * lines_per_slot; line < last; ++line) add_line(line, group, end_group, sums);
  }

 private:
  /// Part of a line of results, and of the lines of the source that the taps [first, last) read along D and H.
  struct Tile {
    const float *src, *diff;
    float* sums;
    Index begin, end;              ///< results along W
    Index inner_begin, inner_end;  ///< those of them for which all taps along W read inside
    Index first[2], last[2];
  };

  KOKKOS_FUNCTION void add_line(Index line, Index group, Index end_group, float* sums) const {
    const Index y = line % extent[1], z = line / extent[1] % extent[0], image = line / extent[1] / extent[0];
    Tile t{};
    reach[0].valid_taps(z, t.first[0], t.last[0]);
    reach[1].valid_taps(y, t.first[1], t.last[1]);
    if (t.first[0] == t.last[0] || t.first[1] == t.last[1]) return;
    const float* d = diff + image * at.n + z * at.step[0] + y * at.step[1];
    const float* s = src + image * from.n + (z * reach[0].step + reach[0].begin) * from.step[0] +
                     (y * reach[1].step + reach[1].begin) * from.step[1] + reach[2].begin * from.step[2];
    const Index tile = ceil_div(extent[2], ceil_div(extent[2], most_tile_positions));
    for (t.begin = 0; t.begin < extent[2]; t.begin = t.end) {
      t.end = t.begin + tile < extent[2] ? t.begin + tile : extent[2];
      t.inner_begin = t.begin, t.inner_end = t.end;
      while (t.inner_begin < t.inner_end && !all_inside(t.inner_begin)) ++t.inner_begin;
      while (t.inner_end > t.inner_begin && !all_inside(t.inner_end - 1)) --t.inner_end;
      for (Index c = group; c < end_group; c += channel_lanes) {
        prefetch_next_tile(s, d, t, group, c);
        t.src = s + c, t.diff = d + c, t.sums = sums + c;
        with_block(c, channels, [&](auto block) { add_tile(block, t); });
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION bool inside(Index x, Index tap) const {
    return reach[2].inside(x * reach[2].step + reach[2].begin + tap * reach[2].tap);
  }
  KOKKOS_FORCEINLINE_FUNCTION bool all_inside(Index x) const { return inside(x, 0) && inside(x, reach[2].taps - 1); }

  /// All channels of the group, but for channel c only its share of the positions.
  KOKKOS_FORCEINLINE_FUNCTION void prefetch_next_tile(const float* s, const float* d, const Tile& t, Index group,
                                                      Index c) const {
    if constexpr (runs_on_host) {
      const Index positions = t.end - t.begin;
      const auto share = [&](Index channel) { return t.end + (channel - group) * positions / group_channels; };
      const float* newest =
          s + (t.last[0] - 1) * reach[0].tap * from.step[0] + (t.last[1] - 1) * reach[1].tap * from.step[1];
      for (Index x = share(c); x < share(c + channel_lanes); ++x)
        for (Index l = group; l < group + group_channels; l += floats_of_line) {
          prefetch<true>(d + x * at.step[2] + l);
          for (Index p = 0; p < reach[2].step; ++p) prefetch<true>(newest + (x * reach[2].step + p) * from.step[2] + l);
        }
    }
  }

  template <class Block>
  KOKKOS_FORCEINLINE_FUNCTION void add_tile(Block block, const Tile& t) const {
    const Index row = reach[2].taps * channels;
    for (Index i = t.first[0]; i < t.last[0]; ++i) {
      const float* s = t.src + i * reach[0].tap * from.step[0];
      float* sums = t.sums + i * reach[1].taps * row;
      Index j = t.first[1];
      for (; runs_on_host && j + 3 <= t.last[1]; j += 3)
        add_rows<3>(block, t, s + j * reach[1].tap * from.step[1], sums + j * row);
      for (; j < t.last[1]; ++j) add_rows<1>(block, t, s + j * reach[1].tap * from.step[1], sums + j * row);
    }
  }

  /// All taps along W of `rows` taps along H.
  template <int rows, class Block>
  KOKKOS_FORCEINLINE_FUNCTION void add_rows(Block block, const Tile& t, const float* s, float* sums) const {
    Index k = 0;
    for (; k + tap_chains <= reach[2].taps; k += tap_chains) add_taps<rows, tap_chains>(block, t, s, sums, k);
    for (; k < reach[2].taps; ++k) add_taps<rows, 1>(block, t, s, sums, k);
  }

  /// The taps k ... k + count - 1.
  template <int rows, int count, class Block>
  KOKKOS_FORCEINLINE_FUNCTION void add_taps(Block block, const Tile& t, const float* s, float* sums, Index k) const {
    const Index step = reach[2].step * from.step[2], tap = reach[2].tap * from.step[2];
    const Index next_row = reach[1].tap * from.step[1], next_sums = reach[2].taps * channels;
    typename Block::Vec total[rows][count];
    const auto for_taps = [&](const auto& use) {
      KEELSON_UNROLL
      for (int r = 0; r < rows; ++r) {
        KEELSON_UNROLL
        for (int n = 0; n < count; ++n) use(r, n);
      }
    };
    for_taps([&](int r, int n) { total[r][n] = block.load(sums + r * next_sums + (k + n) * channels); });
    const auto source = [&](Index x, int r, int n) { return block.load(s + x * step + r * next_row + (k + n) * tap); };
    for (Index x = t.inner_begin; x < t.inner_end; ++x) {
      const auto d = block.load(t.diff + x * at.step[2]);
      for_taps([&](int r, int n) { total[r][n].add_product(source(x, r, n), d); });
    }
    const auto add_edge = [&](Index x) {
      const auto d = block.load(t.diff + x * at.step[2]);
      for_taps([&](int r, int n) {
        if (inside(x, k + n)) total[r][n].add_product(source(x, r, n), d);
      });
    };
    for (Index x = t.begin; x < t.inner_begin; ++x) add_edge(x);
    for (Index x = t.inner_end; x < t.end; ++x) add_edge(x);
    for_taps([&](int r, int n) { block.store(total[r][n], sums + r * next_sums + (k + n) * channels); });
  }
};

/// diff_weights = the sum over slots, always in the same order.
struct AddSlotSums {
  const float* partial;
  float* sums;
  Index slots, count;  ///< count: taps x channels

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) sums[i] = 0;
    for (Index s = 0; s < slots; ++s)
      for (Index i = begin; i < end; ++i) sums[i] += partial[s * count + i];
  }
};

class DepthwiseConv final : public Conv {
 public:
  explicit DepthwiseConv(const ConvDesc& d) : d_(d), g_(d) {}

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  std::string name(Verb) const override { return fmt::format("depthwise:{}", channel_lanes); }

  Cost cost(Verb) const override {
    return {conv_flops(d_), static_cast<double>(d_.src.bytes() + d_.weights.bytes() + d_.dst.bytes())};
  }

  std::size_t scratch_bytes(Verb v) const override {
    if (v != Verb::backward_weights) return 0;
    return sums_bytes() + (d_.writes_diff_bias() ? channel_sums_scratch(positions(), g_.dst.c) : 0);
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    Gather k{src.data<float>(), weights.data<float>(), dst.data<float>(), g_.dst.n, g_.dst.c, {}, {}, {},
             Positions(g_.src), Positions(g_.dst)};
    for (int d = 0; d < 3; ++d) {
      k.extent[d] = g_.dst.extent[d];
      k.reach[d] = source_reach(d);
      k.weights_step[d] = g_.weights_tap[d];
    }
    run("keelson::depthwise_conv::forward", k);
    if (d_.params.bias || d_.params.activation.kind != EltwiseKind::identity)
      add_bias_and_activate(dst.raw(), DType::f32, positions(), g_.dst.c, d_.params.bias ? bias.data<float>() : nullptr,
                            d_.params.activation);
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    const auto residues = [&](int d) { return std::min(g_.stride[d], g_.src.extent[d]); };
    for (Index a = 0; a < residues(0); ++a)
      for (Index b = 0; b < residues(1); ++b)
        for (Index c = 0; c < residues(2); ++c)
          backward_residue({a, b, c}, diff_dst.data<float>(), weights.data<float>(), diff_src.data<float>());
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    auto* partial = static_cast<float*>(scratch.raw());
    const Index count = g_.taps * g_.dst.c;
    SlotSums k{src.data<float>(), diff_dst.data<float>(), partial, g_.dst.c, {}, lines(), lines_per_slot(), slots(), {},
               Positions(g_.src), Positions(g_.dst)};
    for (int d = 0; d < 3; ++d) {
      k.extent[d] = g_.dst.extent[d];
      k.reach[d] = source_reach(d);
    }
    launch("keelson::depthwise_conv::backward_weights", slots() * ceil_div(g_.dst.c, group_channels), k);
    for_each_block("keelson::depthwise_conv::add_slots", count,
                   AddSlotSums{partial, diff_weights.data<float>(), slots(), count}, 512);
    if (d_.writes_diff_bias())
      channel_sums(diff_dst.raw(), DType::f32, positions(), g_.dst.c, diff_bias.data<float>(),
                   reinterpret_cast<char*>(partial) + sums_bytes());
  }

 private:
  Index lines() const { return g_.dst.n * g_.dst.extent[0] * g_.dst.extent[1]; }
  /// Divides the lines among enough work items for many threads, but with at most 32 MiB of sums.
  Index lines_per_slot() const {
    constexpr Index items = runs_on_host ? 256 : Index{1} << 14, most_sums = Index{8} << 20;
    const Index groups = ceil_div(g_.dst.c, group_channels);
    const Index wanted = std::min(ceil_div(items, groups), most_sums / (g_.taps * g_.dst.c));
    return std::max<Index>(1, ceil_div(lines(), std::max<Index>(1, wanted)));
  }
  Index slots() const { return ceil_div(lines(), lines_per_slot()); }
  Index positions() const { return lines() * g_.dst.extent[2]; }
  std::size_t sums_bytes() const {
    return align64(static_cast<std::size_t>(slots() * g_.taps * g_.dst.c) * sizeof(float));
  }
  Reach source_reach(int d) const { return {g_.stride[d], -g_.pad[d], g_.dilation[d], g_.kernel[d], g_.src.extent[d]}; }

  /// The source elements whose coordinates have this residue modulo the strides.
  void backward_residue(const Triple& residue, const float* diff_dst, const float* weights, float* diff_src) const {
    Gather k{diff_dst, weights, diff_src, g_.src.n, g_.src.c, {}, {}, {}, Positions(g_.dst), Positions(g_.src)};
    for (int d = 0; d < 3; ++d) {
      const auto r = residue_of(g_, d, residue[d]);
      k.extent[d] = r.extent;
      k.reach[d] = {1, r.begin, -r.back, r.taps, g_.dst.extent[d]};
      k.weights += r.first * g_.weights_tap[d];
      k.weights_step[d] = r.step * g_.weights_tap[d];
      k.dst += residue[d] * g_.src.stride[d];
      k.to.step[d] = g_.stride[d] * g_.src.stride[d];
    }
    run("keelson::depthwise_conv::backward_data", k);
  }

  static void run(const char* label, const Gather& k) {
    const Index width = runs_on_host ? 1 : k.extent[2];
    launch(label, k.n * k.extent[0] * k.extent[1] * width * ceil_div(k.channels, channel_lanes), k);
  }

  ConvDesc d_;
  ConvGeometry g_;
};

}  // namespace

Expected<Conv> make_depthwise_conv(const ConvDesc& desc) {
  const Index channels = desc.src.shape[1];
  if (desc.params.groups != channels || desc.dst.shape[1] != channels || channels == 1)
    return std::string("not one filter per channel");
  ConvDesc d = desc;
  d.src.layout = chosen(d.src, Layout::channels_last(d.src.shape));
  d.weights.layout = chosen(d.weights, filters_last(d.weights.shape));
  d.dst.layout = chosen(d.dst, Layout::channels_last(d.dst.shape));
  if (!d.src.layout.is_channels_last(d.src.shape) || !d.dst.layout.is_channels_last(d.dst.shape))
    return std::string("src or dst is not channels-last");
  if (!(d.weights.layout == filters_last(d.weights.shape)))
    return std::string("the weights of a tap are not contiguous");
  return std::unique_ptr<Conv>(std::make_unique<DepthwiseConv>(d));
}

}  // namespace keelson::kokkos
