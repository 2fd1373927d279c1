#include "engine/ops/conv.hpp"

#include <algorithm>

#include "engine/ops/window.hpp"

namespace keelson::ops {

Shape conv_dst_shape(const Shape& src, const ConvParams& params, std::int64_t filters) {
  const auto positions = window_positions(
      "convolution", src, {params.kernel, params.stride, params.dilation, params.pad_begin, params.pad_end});
  if (params.groups < 1) refuse("convolution: {} groups; at least 1 is needed", params.groups);
  if (filters < 1) refuse("convolution: {} filters; at least 1 is needed", filters);
  if (src[1] % params.groups != 0 || filters % params.groups != 0)
    refuse(
        "convolution: {} input channels and {} filters cannot be split into {} groups; both must be multiples of the "
        "number of "
        "groups",
        src[1], filters, params.groups);
  Shape dst{src[0], filters};
  for (auto p : positions) dst.push_back(p);
  return dst;
}

void set_same_padding(ConvParams& params, const Shape& src) {
  const int spatial = src.rank() - 2;
  if (params.kernel.rank() != spatial || params.stride.rank() != spatial || params.dilation.rank() != spatial)
    refuse(
        "convolution with 'same' padding: kernel {}, stride {} and dilation {} need one entry for each spatial dim of "
        "the input {}",
        to_string(params.kernel), to_string(params.stride), to_string(params.dilation), to_string(src));
  params.pad_begin = params.pad_end = Shape::filled(spatial, 0);
  for (int i = 0; i < spatial; ++i) {
    const auto in = src[i + 2], stride = std::max<std::int64_t>(params.stride[i], 1);
    const auto reach = params.dilation[i] * (params.kernel[i] - 1) + 1;
    const auto out = (in + stride - 1) / stride;
    const auto total = std::max<std::int64_t>((out - 1) * stride + reach - in, 0);
    params.pad_begin[i] = total / 2;
    params.pad_end[i] = total - total / 2;
  }
}

std::vector<Verb> ConvDesc::verbs() const {
  std::vector<Verb> all{Verb::forward};
  if (training && diff_src) all.push_back(Verb::backward_data);
  if (training && diff_weights) all.push_back(Verb::backward_weights);
  return all;
}

void ConvDesc::take_layouts(const Conv& conv) {
  src.layout = conv.layout(Verb::forward, Role::src);
  dst.layout = conv.layout(Verb::forward, Role::dst);
  if (!weights.layout.is_any()) return;
  if (const auto l = conv.layout(Verb::forward, Role::weights); l.is_strided()) weights.layout = l;
}

double conv_flops(const ConvDesc& d) {
  // Every element of dst needs one multiply-add per weight of its filter.
  const auto per_filter = d.weights.shape.elements() / d.weights.shape[0];
  return 2.0 * static_cast<double>(d.dst.elements()) * static_cast<double>(per_filter);
}

}  // namespace keelson::ops
