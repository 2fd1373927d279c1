#include "backends/kokkos/conv/conv_geometry.hpp"

#include <algorithm>
#include <numeric>

#include "backends/kokkos/common/tile.hpp"

namespace keelson::kokkos {

ops::Cost conv_cost(const ops::ConvDesc& d, ops::Verb verb) {
  const auto bias = d.params.bias && verb != ops::Verb::backward_data ? d.dst.shape[1] : 0;
  const auto bytes = d.src.used_bytes() + d.weights.bytes() + d.dst.bytes();
  return {conv_flops(d), static_cast<double>(bytes) + static_cast<double>(bias) * sizeof(float)};
}

ConvGeometry::ConvGeometry(const ops::ConvDesc& d)
    : src(d.src.shape, d.src.layout),
      dst(d.dst.shape, d.dst.layout),
      groups(d.params.groups),
      ci(src.c / groups),
      co(dst.c / groups),
      kernel(three(d.params.kernel, 1)),
      stride(three(d.params.stride, 1)),
      dilation(three(d.params.dilation, 1)),
      pad(three(d.params.pad_begin, 0)),
      taps(d.params.kernel.elements()) {
  const auto& strides = d.weights.layout.strides();
  weights_o = strides[0];
  weights_i = strides[1];
  const int missing = 5 - strides.rank();
  for (int i = 0; i < 3; ++i) weights_tap[i] = i < missing ? 0 : strides[2 + i - missing];
}

Layout filters_last(const Shape& weights) {
  Shape strides = Shape::filled(weights.rank(), 1);
  Index step = weights[0];
  strides[1] = step;
  step *= weights[1];
  for (int i = weights.rank() - 1; i >= 2; --i) {
    strides[i] = step;
    step *= weights[i];
  }
  return Layout::strided(weights, strides);
}

Residue residue_of(const ConvGeometry& g, int d, Index residue) {
  Residue p{ceil_div(g.src.extent[d] - residue, g.stride[d])};
  p.step = g.stride[d] / std::gcd(g.dilation[d], g.stride[d]);
  p.back = p.step * g.dilation[d] / g.stride[d];
  const auto numerator = [&](Index k) { return residue + g.pad[d] - k * g.dilation[d]; };
  for (Index k = 0; k < std::min(p.step, g.kernel[d]); ++k)
    if (numerator(k) % g.stride[d] == 0) {
      p.first = k;
      p.taps = (g.kernel[d] - 1 - k) / p.step + 1;
      p.begin = numerator(k) / g.stride[d];
    }
  return p;
}

PartialSumBlocks::PartialSumBlocks(const ConvGeometry& g, std::size_t bytes_of_sums, std::size_t limit) {
  const Index all = g.dst.n * g.dst.extent[0] * g.dst.extent[1];
  const Index line_bytes = g.dst.extent[2] * g.dst.c * static_cast<Index>(sizeof(float));
  const Index near = std::max<Index>(1, (Index{256} << 10) / line_bytes);
  const Index most = std::max<Index>(1, static_cast<Index>(limit / bytes_of_sums));
  lines = std::max(near, ceil_div(all, most));
  count = ceil_div(all, lines);
}

namespace {

constexpr Index copy_block = 64;  ///< positions along W that one work item copies

struct FillView {
  ViewPlan p;
  const float* src;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index blocks = ceil_div(p.extent[2], copy_block);
    const Index w_begin = item % blocks * copy_block;
    item /= blocks;
    const Index h = item % p.extent[1];
    item /= p.extent[1];
    const Index d = item % p.extent[0], n = item / p.extent[0];
    const Index w_end = w_begin + copy_block < p.extent[2] ? w_begin + copy_block : p.extent[2];
    const Index total = p.groups * p.channels;
    float* to = dst + (((n * p.extent[0] + d) * p.extent[1] + h) * p.extent[2] + w_begin) * total;

    const Index sd = d + p.low[0], sh = h + p.low[1];
    const bool inside = sd >= 0 && sd < p.tensor.extent[0] && sh >= 0 && sh < p.tensor.extent[1];
    const float* from = src + n * p.tensor.stride_n + sd * p.tensor.stride[0] + sh * p.tensor.stride[1];
    if (inside && contiguous()) return copy_run(from, to, w_begin + p.low[2], w_end + p.low[2]);
    for (Index w = w_begin; w < w_end; ++w, to += total) {
      const Index sw = w + p.low[2];
      if (!inside || sw < 0 || sw >= p.tensor.extent[2])
        for (Index c = 0; c < total; ++c) to[c] = 0;
      else
        copy_channels(from + sw * p.tensor.stride[2], to);
    }
  }

  KOKKOS_FUNCTION bool contiguous() const {
    return p.tensor.stride_c == 1 && p.tensor.stride[2] == p.groups * p.channels;
  }
  /// Positions [begin, end) along W of a row whose positions are contiguous in src and in dst.
  KOKKOS_FUNCTION void copy_run(const float* row, float* to, Index begin, Index end) const {
    const Index step = p.tensor.stride[2], last = end < p.tensor.extent[2] ? end : p.tensor.extent[2];
    for (; begin < end && begin < 0; ++begin)
      for (Index c = 0; c < step; ++c) *to++ = 0;
    const float* from = row + begin * step;
    for (Index i = 0; i < (last - begin) * step; ++i) to[i] = from[i];
    if (last > begin) to += (last - begin) * step, begin = last;
    for (Index i = 0; i < (end - begin) * step; ++i) to[i] = 0;
  }
  KOKKOS_FUNCTION void copy_channels(const float* from, float* to) const {
    for (Index g = 0; g < p.groups; ++g, to += p.channels) {
      const float* x = from + g * p.channels * p.tensor.stride_c;
      if (p.tensor.stride_c == 1)
        for (Index c = 0; c < p.channels; ++c) to[c] = x[c];
      else
        for (Index c = 0; c < p.channels; ++c) to[c] = x[c * p.tensor.stride_c];
    }
  }
};

struct FillConvPanels {
  PanelPlan p;
  const float* weights;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    float* to = dst + item * p.inner * p.lanes;
    const Index kw = item % p.kernel[2];
    item /= p.kernel[2];
    const Index kh = item % p.kernel[1];
    item /= p.kernel[1];
    const Index kd = item % p.kernel[0];
    item /= p.kernel[0];
    const Index first = item % p.panels * p.lanes, group = item / p.panels;
    const Index valid = first + p.lanes < p.columns ? p.lanes : p.columns - first;
    const float* from = weights + group * p.group_stride + first * p.column_stride + kd * p.tap_stride[0] +
                        kh * p.tap_stride[1] + kw * p.tap_stride[2];
    for (Index i = 0; i < p.inner; ++i, to += p.lanes, from += p.inner_stride) {
      for (Index l = 0; l < valid; ++l) to[l] = from[l * p.column_stride];
      for (Index l = valid; l < p.lanes; ++l) to[l] = 0;
    }
  }
};

}  // namespace

bool is_dense_channels_last(const Volume& v) {
  Index step = v.c;
  for (int d = 2; d >= 0; --d) {
    if (v.extent[d] > 1 && v.stride[d] != step) return false;
    step *= v.extent[d];
  }
  return v.stride_c == 1 && (v.n == 1 || v.stride_n == step);
}

ViewPlan::ViewPlan(const Volume& t, Index group_count, const Triple& from, const Triple& to)
    : tensor(t), groups(group_count), channels(t.c / group_count), low(from) {
  copy = channels > 1 && tensor.stride_c != 1;
  for (int i = 0; i < 3; ++i) {
    extent[i] = to[i] - from[i] + 1;
    copy = copy || from[i] < 0 || to[i] >= tensor.extent[i];
  }
}

std::size_t ViewPlan::scratch_bytes() const {
  if (!copy) return 0;
  return align64(static_cast<std::size_t>(tensor.n * extent[0] * extent[1] * extent[2] * groups * channels) *
                 sizeof(float));
}

Index ViewPlan::step(int d) const {
  if (!copy) return tensor.stride[d];
  Index step = groups * channels;
  for (int i = 2; i > d; --i) step *= extent[i];
  return step;
}

ChannelView ViewPlan::make(const float* data, float* scratch) const {
  constexpr const char* label = "keelson::conv::fill_view";
  ChannelView v;
  if (!copy) {
    v.data = data;
    v.step_n = tensor.stride_n;
    v.step_g = channels * tensor.stride_c;
    for (int i = 0; i < 3; ++i) v.step[i] = step(i);
    return v;
  }
  v.data = scratch;
  v.step_g = channels;
  for (int i = 0; i < 3; ++i) v.step[i] = step(i);
  v.step_n = extent[0] * v.step[0];
  for (int i = 0; i < 3; ++i) v.base -= low[i] * v.step[i];
  const Index items = tensor.n * extent[0] * extent[1] * ceil_div(extent[2], copy_block);
  launch(label, items, FillView{*this, data, scratch});
  return v;
}

PanelPlan::PanelPlan(const ConvGeometry& g, bool forward)
    : groups(g.groups),
      columns(forward ? g.co : g.ci),
      inner(forward ? g.ci : g.co),
      lanes(lanes_for(columns)),
      panels(ceil_div(columns, lanes)),
      column_stride(forward ? g.weights_o : g.weights_i),
      inner_stride(forward ? g.weights_i : g.weights_o),
      group_stride(g.co * g.weights_o),
      kernel(g.kernel),
      tap_stride(g.weights_tap) {
  // Rows far apart would map to few cache sets, so that wide weights are copied even if the kernel could read them
  // directly.
  constexpr Index near_rows = 128;
  copy = column_stride != 1 || columns % lanes != 0 || inner_stride > near_rows;
}

std::size_t PanelPlan::scratch_bytes() const {
  return copy ? align64(static_cast<std::size_t>(groups * size()) * sizeof(float)) : 0;
}

Panels make_panels(const PanelPlan& p, const float* weights, float* scratch) {
  constexpr const char* label = "keelson::conv::fill_panels";
  if (!p.copy) return {weights, p.group_stride, p.lanes, p.inner_stride, p.tap_stride};
  Panels w{scratch, p.size(), p.size() / p.panels, p.lanes, {0, 0, 0}};
  w.step_tap[2] = p.inner * p.lanes;
  w.step_tap[1] = p.kernel[2] * w.step_tap[2];
  w.step_tap[0] = p.kernel[1] * w.step_tap[1];
  const Index items = p.groups * p.panels * p.kernel[0] * p.kernel[1] * p.kernel[2];
  launch(label, items, FillConvPanels{p, weights, scratch});
  return w;
}

}  // namespace keelson::kokkos
