#include <array>

#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

using Three = std::array<std::int64_t, 3>;

/// The spatial entries of `s` as (D, H, W), filled up in front.
Three three(const Shape& s, int first, std::int64_t fill) {
  Three t{fill, fill, fill};
  for (int i = first; i < s.rank(); ++i) t[3 - static_cast<std::size_t>(s.rank()) + static_cast<std::size_t>(i)] = s[i];
  return t;
}

struct Geometry {
  std::int64_t n, groups, c_per_group, o_per_group;
  Three in, out, kernel, stride, dilation, pad;
};

Geometry geometry(const Shape& src, const Shape& weights, const ops::ConvParams& p) {
  const Shape dst = conv_shape(src, weights, p);
  return {src[0],
          p.groups,
          weights[1],
          weights[0] / p.groups,
          three(src, 2, 1),
          three(dst, 2, 1),
          three(weights, 2, 1),
          three(p.stride, 0, 1),
          three(p.dilation, 0, 1),
          three(p.pad_begin, 0, 0)};
}

/// Calls tap(src offset, weight offset, dst offset) for every multiply-add; the src offset is -1 on padding.
template <class Tap>
void for_each_tap(const Geometry& g, Tap tap) {
  const auto [D, H, W] = g.in;
  const auto [oD, oH, oW] = g.out;
  const auto [kD, kH, kW] = g.kernel;
  std::int64_t w = -1;
  for (std::int64_t o = 0; o < g.groups * g.o_per_group; ++o)
    for (std::int64_t ci = 0; ci < g.c_per_group; ++ci)
      for (std::int64_t kd = 0; kd < kD; ++kd)
        for (std::int64_t kh = 0; kh < kH; ++kh)
          for (std::int64_t kw = 0; kw < kW; ++kw) {
            ++w;
            const std::int64_t c = o / g.o_per_group * g.c_per_group + ci;
            for (std::int64_t n = 0; n < g.n; ++n)
              for (std::int64_t od = 0; od < oD; ++od)
                for (std::int64_t oh = 0; oh < oH; ++oh) {
                  const std::int64_t d = od * g.stride[0] - g.pad[0] + kd * g.dilation[0];
                  const std::int64_t h = oh * g.stride[1] - g.pad[1] + kh * g.dilation[1];
                  const bool row_inside = d >= 0 && d < D && h >= 0 && h < H;
                  const std::int64_t row = (((n * g.groups * g.c_per_group + c) * D + d) * H + h) * W;
                  const std::int64_t dst = (((n * g.groups * g.o_per_group + o) * oD + od) * oH + oh) * oW;
                  for (std::int64_t ow = 0; ow < oW; ++ow) {
                    const std::int64_t x = ow * g.stride[2] - g.pad[2] + kw * g.dilation[2];
                    tap(row_inside && x >= 0 && x < W ? row + x : -1, w, dst + ow);
                  }
                }
          }
}

/// Calls tap(src offset, weight offset, dst offset) for every multiply-add; the dst offset is -1 for what is cut off.
template <class Tap>
void for_each_transposed_tap(const Shape& src, const Shape& weights, const ops::TransposedConvParams& p, Tap tap) {
  const Shape dst = transposed_conv_shape(src, weights, p);
  const Three in = three(src, 2, 1), out = three(dst, 2, 1), kernel = three(weights, 2, 1),
              stride = three(p.stride, 0, 1), dilation = three(p.dilation, 0, 1), pad = three(p.pad_begin, 0, 0);
  const std::int64_t channels = src[1], per_group = weights[1], of_dst = dst[1];
  for (std::int64_t n = 0; n < src[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t o = 0; o < per_group; ++o) {
        const std::int64_t to = c / (channels / p.groups) * per_group + o;
        for (std::int64_t d = 0; d < in[0]; ++d)
          for (std::int64_t h = 0; h < in[1]; ++h)
            for (std::int64_t w = 0; w < in[2]; ++w)
              for (std::int64_t i = 0; i < kernel[0]; ++i)
                for (std::int64_t j = 0; j < kernel[1]; ++j)
                  for (std::int64_t k = 0; k < kernel[2]; ++k) {
                    const std::int64_t z = d * stride[0] + i * dilation[0] - pad[0],
                                       y = h * stride[1] + j * dilation[1] - pad[1],
                                       x = w * stride[2] + k * dilation[2] - pad[2];
                    const bool inside = z >= 0 && z < out[0] && y >= 0 && y < out[1] && x >= 0 && x < out[2];
                    tap((((n * channels + c) * in[0] + d) * in[1] + h) * in[2] + w,
                        (((c * per_group + o) * kernel[0] + i) * kernel[1] + j) * kernel[2] + k,
                        inside ? (((n * of_dst + to) * out[0] + z) * out[1] + y) * out[2] + x : -1);
                  }
      }
}

}  // namespace

Shape conv_shape(const Shape& src, const Shape& weights, const ops::ConvParams& p) {
  KEELSON_EXPECT(src[1] == weights[1] * p.groups && weights[0] % p.groups == 0);
  Shape dst{src[0], weights[0]};
  for (int i = 0; i < src.rank() - 2; ++i) {
    // The number of positions at which the (dilated) kernel fits into the padded input.
    const auto reach = (weights[i + 2] - 1) * p.dilation[i];
    std::int64_t positions = 0;
    for (auto at = -p.pad_begin[i]; at + reach < src[i + 2] + p.pad_end[i]; at += p.stride[i]) ++positions;
    dst.push_back(positions);
  }
  return dst;
}

std::int64_t conv_count(const Shape& src, const Shape& weights, const ops::ConvParams& p) {
  std::int64_t count = 0;
  for_each_tap(geometry(src, weights, p), [&](auto, auto, auto) { ++count; });
  return count;
}

Array conv_forward(const Array& src, const Array& weights, const Array& bias, const ops::ConvParams& p) {
  Array dst(conv_shape(src.shape, weights.shape, p));
  if (!bias.empty()) {
    const auto spatial = dst.elements() / (dst.shape[0] * dst.shape[1]);
    for (std::int64_t i = 0; i < dst.elements(); ++i) dst[i] = bias[i / spatial % dst.shape[1]];
  }
  for_each_tap(geometry(src.shape, weights.shape, p), [&](std::int64_t s, std::int64_t w, std::int64_t d) {
    if (s >= 0) dst[d] += src[s] * weights[w];
  });
  return eltwise_forward(dst, p.activation);
}

Array conv_backward_data(const Array& diff_dst, const Array& weights, const Shape& src_shape,
                         const ops::ConvParams& p) {
  Array diff_src(src_shape);
  for_each_tap(geometry(src_shape, weights.shape, p), [&](std::int64_t s, std::int64_t w, std::int64_t d) {
    if (s >= 0) diff_src[s] += diff_dst[d] * weights[w];
  });
  return diff_src;
}

Array conv_backward_weights(const Array& src, const Array& diff_dst, const Shape& weights_shape,
                            const ops::ConvParams& p) {
  Array diff_weights(weights_shape);
  for_each_tap(geometry(src.shape, weights_shape, p), [&](std::int64_t s, std::int64_t w, std::int64_t d) {
    if (s >= 0) diff_weights[w] += src[s] * diff_dst[d];
  });
  return diff_weights;
}

Shape transposed_conv_shape(const Shape& src, const Shape& weights, const ops::TransposedConvParams& p) {
  KEELSON_EXPECT(src[1] == weights[0] && src[1] % p.groups == 0);
  Shape dst{src[0], weights[1] * p.groups};
  for (int i = 0; i < src.rank() - 2; ++i) {
    // One behind the last element that is reached, and the output padding, without what is cut off.
    const auto last = (src[i + 2] - 1) * p.stride[i] + (weights[i + 2] - 1) * p.dilation[i];
    dst.push_back(last + 1 + p.output_padding[i] - p.pad_begin[i] - p.pad_end[i]);
  }
  return dst;
}

std::int64_t transposed_conv_count(const Shape& src, const Shape& weights, const ops::TransposedConvParams& p) {
  std::int64_t count = 0;
  for_each_transposed_tap(src, weights, p, [&](auto, auto, auto) { ++count; });
  return count;
}

Array transposed_conv_forward(const Array& src, const Array& weights, const Array& bias,
                              const ops::TransposedConvParams& p) {
  Array dst(transposed_conv_shape(src.shape, weights.shape, p));
  if (!bias.empty()) {
    const auto spatial = dst.elements() / (dst.shape[0] * dst.shape[1]);
    for (std::int64_t i = 0; i < dst.elements(); ++i) dst[i] = bias[i / spatial % dst.shape[1]];
  }
  for_each_transposed_tap(src.shape, weights.shape, p, [&](std::int64_t s, std::int64_t w, std::int64_t d) {
    if (d >= 0) dst[d] += src[s] * weights[w];
  });
  return eltwise_forward(dst, p.activation);
}

Array transposed_conv_backward_data(const Array& diff_dst, const Array& weights, const Shape& src_shape,
                                    const ops::TransposedConvParams& p) {
  Array diff_src(src_shape);
  for_each_transposed_tap(src_shape, weights.shape, p, [&](std::int64_t s, std::int64_t w, std::int64_t d) {
    if (d >= 0) diff_src[s] += diff_dst[d] * weights[w];
  });
  return diff_src;
}

Array transposed_conv_backward_weights(const Array& src, const Array& diff_dst, const Shape& weights_shape,
                                       const ops::TransposedConvParams& p) {
  Array diff_weights(weights_shape);
  for_each_transposed_tap(src.shape, weights_shape, p, [&](std::int64_t s, std::int64_t w, std::int64_t d) {
    if (d >= 0) diff_weights[w] += src[s] * diff_dst[d];
  });
  return diff_weights;
}

Array backward_bias(const Array& diff_dst) {
  const auto channels = diff_dst.shape[1];
  const auto spatial = diff_dst.elements() / (diff_dst.shape[0] * channels);
  Array diff_bias(Shape{channels});
  for (std::int64_t i = 0; i < diff_dst.elements(); ++i) diff_bias[i / spatial % channels] += diff_dst[i];
  return diff_bias;
}

Array dense_forward(const Array& src, const Array& weights, const Array& bias, const ops::DenseParams& p) {
  const auto in = weights.shape[1], out = weights.shape[0];
  Array dst(Shape{src.shape[0], out});
  for (std::int64_t n = 0; n < src.shape[0]; ++n)
    for (std::int64_t o = 0; o < out; ++o) {
      double x = bias.empty() ? 0 : bias[o];
      for (std::int64_t i = 0; i < in; ++i) x += src[n * in + i] * weights[o * in + i];
      dst[n * out + o] = x;
    }
  return eltwise_forward(dst, p.activation);
}

Array dense_backward_data(const Array& diff_dst, const Array& weights) {
  const auto in = weights.shape[1], out = weights.shape[0];
  Array diff_src(Shape{diff_dst.shape[0], in});
  for (std::int64_t n = 0; n < diff_dst.shape[0]; ++n)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) diff_src[n * in + i] += diff_dst[n * out + o] * weights[o * in + i];
  return diff_src;
}

Array dense_backward_weights(const Array& src, const Array& diff_dst) {
  const auto in = src.shape[1], out = diff_dst.shape[1];
  Array diff_weights(Shape{out, in});
  for (std::int64_t n = 0; n < src.shape[0]; ++n)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) diff_weights[o * in + i] += diff_dst[n * out + o] * src[n * in + i];
  return diff_weights;
}

}  // namespace keelson::oracle
