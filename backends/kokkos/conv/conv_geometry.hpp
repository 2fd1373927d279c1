#pragma once

#include "backends/kokkos/common/kernel.hpp"
#include "engine/ops/conv.hpp"

/// A convolution in the form of the kernels: three spatial dims, element strides, contiguous channels in the reduction.
namespace keelson::kokkos {

using Triple = Kokkos::Array<Index, 3>;

struct ConvGeometry {
  Volume src, dst;
  Index groups, ci, co;  ///< channels of one group
  Triple kernel, stride, dilation, pad;
  Index weights_o, weights_i;  ///< element strides of the weights
  Triple weights_tap;
  Index taps;

  explicit ConvGeometry(const ops::ConvDesc& d);
};

/// Whether the elements are in the order (N, spatial..., C) without gaps.
bool is_dense_channels_last(const Volume& v);

/// FLOPs by the definition, and the bytes of all operands.
ops::Cost conv_cost(const ops::ConvDesc& d, ops::Verb verb);

/// (kernel..., I, O), O fastest: the columns of the forward kernel.
Layout filters_last(const Shape& weights);

/// In one dim: the source coordinates with one residue modulo the stride. The taps that reach them are k = first + j
/// step, and tap j reads diff_dst at q + begin - j * back for source coordinate residue + q * stride.
struct Residue {
  Index extent;  ///< source coordinates with this residue
  Index taps = 0, first = 0, step = 1, begin = 0, back = 0;
};
Residue residue_of(const ConvGeometry& g, int d, Index residue);

/// The partial sums of backward weights: slots, each with some lines of dst.
struct PartialSumBlocks {
  Index count, lines;

  /// Slots of about 256 KiB of diff_dst, which stay in cache while all taps read them, but at most `limit` bytes of
  /// sums.
  PartialSumBlocks(const ConvGeometry& g, std::size_t bytes_of_sums, std::size_t limit);
};

/// A tensor (N, G x channels, D, H, W) in which the channels of a group are contiguous: element (n, g, c, x) is at base
/// + n * step_n + g * step_g + c + x . step. x may be outside of the tensor within the box of the ViewPlan.
struct ChannelView {
  const float* data = nullptr;
  Index base = 0, step_n = 0, step_g = 0;
  Triple step = {0, 0, 0};
};

/// How to make a ChannelView of an operand over the box [low, high] of coordinates: directly, or as a copy in scratch
/// with zeros around it, so that no kernel has to check borders.
struct ViewPlan {
  Volume tensor;
  Index groups, channels;  ///< channels of one group
  Triple low, extent;
  bool copy;

  ViewPlan(const Volume& tensor, Index groups, const Triple& low, const Triple& high);

  std::size_t scratch_bytes() const;
  Index step(int d) const;  ///< ChannelView::step of the view
  /// The view of `data`. If the view is a copy, launches the kernel that fills `scratch`.
  ChannelView make(const float* data, float* scratch) const;
};

/// The weights as panels of `lanes` columns: (group, panel, kD, kH, kW, inner, lane); not copied if the weights have
/// this layout already.
struct PanelPlan {
  Index groups, columns, inner, lanes, panels;
  Index column_stride, inner_stride, group_stride;
  Triple kernel, tap_stride;
  bool copy;

  /// Forward: the columns are output channels, and the reduction is over input channels. Backward data: the reverse.
  PanelPlan(const ConvGeometry& g, bool forward);

  std::size_t scratch_bytes() const;
  Index size() const { return panels * kernel[0] * kernel[1] * kernel[2] * inner * lanes; }  ///< for one group
};

struct Panels {
  const float* data;
  Index step_group, step_panel, step_row;
  Triple step_tap;
};
Panels make_panels(const PanelPlan& plan, const float* weights, float* scratch);

}  // namespace keelson::kokkos
