#include "engine/ops/transposed_conv.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/window.hpp"

namespace keelson::ops {

namespace {

constexpr std::string_view op_name = "transposed convolution";

std::int64_t reach(const TransposedConvParams& p, int i) { return p.dilation[i] * (p.kernel[i] - 1) + 1; }

}  // namespace

Shape transposed_conv_dst_shape(const Shape& src, const TransposedConvParams& params, std::int64_t channels) {
  check_window(op_name, src, {params.kernel, params.stride, params.dilation, params.pad_begin, params.pad_end});
  const int spatial = src.rank() - 2;
  if (params.output_padding.rank() != spatial)
    refuse("{}: output_padding has {} entries ({}), but the input has {} spatial dims; give one entry for each",
           op_name, params.output_padding.rank(), to_string(params.output_padding), spatial);
  if (params.groups < 1) refuse("{}: {} groups; at least 1 is needed", op_name, params.groups);
  if (channels < 1) refuse("{}: {} channels of the result; at least 1 is needed", op_name, channels);
  if (src[1] % params.groups != 0 || channels % params.groups != 0)
    refuse("{}: {} input channels and {} of the result cannot be split into {} groups; groups must divide both",
           op_name, src[1], channels, params.groups);
  Shape dst{src[0], channels};
  for (int i = 0; i < spatial; ++i) {
    if (params.output_padding[i] < 0 || params.output_padding[i] >= params.stride[i])
      refuse("{}: output_padding is {} in spatial dim {}, where the stride is {}; expected 0 to {}", op_name,
             params.output_padding[i], i, params.stride[i], params.stride[i] - 1);
    const auto whole = (src[i + 2] - 1) * params.stride[i] + reach(params, i) + params.output_padding[i];
    const auto cut = params.pad_begin[i] + params.pad_end[i];
    if (src[i + 2] < 1 || whole <= cut)
      refuse(
          "{}: the input {} makes {} elements in spatial dim {}, and the padding cuts off {} of them; use a larger "
          "input, a larger kernel or less padding",
          op_name, to_string(src), whole, i, cut);
    dst.push_back(whole - cut);
  }
  return dst;
}

void set_same_padding(TransposedConvParams& params) {
  const int spatial = params.kernel.rank();
  if (params.stride.rank() != spatial || params.dilation.rank() != spatial)
    refuse("{} with 'same' padding: kernel {}, stride {} and dilation {} need as many entries", op_name,
           to_string(params.kernel), to_string(params.stride), to_string(params.dilation));
  params.pad_begin = params.pad_end = params.output_padding = Shape::filled(spatial, 0);
  for (int i = 0; i < spatial; ++i) {
    const auto over = reach(params, i) - params.stride[i];
    params.pad_begin[i] = std::max<std::int64_t>(over, 0) / 2;
    params.pad_end[i] = std::max<std::int64_t>(over, 0) - params.pad_begin[i];
    params.output_padding[i] = std::max<std::int64_t>(-over, 0);
  }
}

ConvDesc swapped_conv(const TransposedConvDesc& d) {
  ConvDesc c;
  c.params.kernel = d.params.kernel;
  c.params.stride = d.params.stride;
  c.params.dilation = d.params.dilation;
  c.params.pad_begin = d.params.pad_begin;
  c.params.pad_end = d.params.pad_end;
  // A convolution drops up to stride - 1 elements at the end. These are the elements of the output padding that exceed
  // the padding.
  for (int i = 0; i < d.params.kernel.rank(); ++i)
    c.params.pad_end[i] = std::max<std::int64_t>(d.params.pad_end[i] - d.params.output_padding[i], 0);
  c.params.groups = d.params.groups;
  c.params.bias = false;
  c.src = {d.dst.shape, d.src.dtype, d.dst.layout};
  c.weights = d.weights;
  c.dst = {d.src.shape, d.dst.dtype, d.src.layout};
  c.training = true;  // this op's forward is a backward verb
  c.diff_weights = d.training;
  c.tf32 = d.tf32;
  c.exact = d.exact;
  return c;
}

}  // namespace keelson::ops
