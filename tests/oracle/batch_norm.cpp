#include "tests/oracle/batch_norm.hpp"

#include <cmath>

namespace keelson::oracle {

namespace {

/// Calls use(element, row's weight, channel) for all elements.
template <class Use>
void for_all(const Array& src, const Array& weight, const Use& use) {
  const std::int64_t channels = src.shape[1], places = src.elements() / src.shape[0] / channels;
  const std::int64_t rows_each = weight.empty() ? 1 : src.shape[0] / weight.elements();
  for (std::int64_t i = 0; i < src.elements(); ++i) {
    const std::int64_t n = i / (channels * places), c = i / places % channels;
    use(i, weight.empty() ? 1.0 : weight[n / rows_each], c);
  }
}

}  // namespace

BatchStatistics batch_statistics(const Array& src, const Array& weight) {
  const std::int64_t channels = src.shape[1];
  BatchStatistics s{Array(Shape{2 * channels + 1}), Array(Shape{channels}), Array(Shape{channels})};
  for_all(src, weight, [&](auto i, double w, auto c) {
    s.sums[c] += w * src[i];
    s.sums[channels + c] += w * src[i] * src[i];
    if (c == 0) s.sums[2 * channels] += w;
  });
  const double total = s.sums[2 * channels];
  if (total == 0) {
    s.variance = Array(s.variance.shape, 1.0);
    return s;
  }
  for (std::int64_t c = 0; c < channels; ++c) s.mean[c] = s.sums[c] / total;
  // By differences from the mean, which the kernels do otherwise.
  for_all(src, weight,
          [&](auto i, double w, auto c) { s.variance[c] += w * (src[i] - s.mean[c]) * (src[i] - s.mean[c]) / total; });
  return s;
}

Array batch_norm(const Array& src, const Array& mean, const Array& variance, const Array& scale, const Array& shift,
                 double epsilon) {
  Array dst(src.shape);
  for_all(src, {}, [&](auto i, double, auto c) {
    dst[i] = (src[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + shift[c];
  });
  return dst;
}

/// With x' = (x - m) / d, d = sqrt(v + epsilon), W = sum of w: dm/dx_i = w_i / W, dv/dx_i = 2 w_i (x_i - m) / W, so
/// dx_i = scale / d (g_i - w_i / W (sum_j g_j + x'_i sum_j g_j x'_j)).
BatchNormGradients batch_norm_backward(const Array& diff_dst, const Array& src, const Array& weight, const Array& scale,
                                       double epsilon) {
  const auto s = batch_statistics(src, weight);
  const double total = s.sums[s.sums.elements() - 1];
  BatchNormGradients g{Array(src.shape), Array(scale.shape), Array(scale.shape)};
  const auto normal = [&](auto i, auto c) { return (src[i] - s.mean[c]) / std::sqrt(s.variance[c] + epsilon); };
  for_all(src, weight, [&](auto i, double, auto c) {
    g.shift[c] += diff_dst[i];
    g.scale[c] += diff_dst[i] * normal(i, c);
  });
  for_all(src, weight, [&](auto i, double w, auto c) {
    const double part = total > 0 ? w / total : 0;
    g.src[i] =
        scale[c] / std::sqrt(s.variance[c] + epsilon) * (diff_dst[i] - part * (g.shift[c] + normal(i, c) * g.scale[c]));
  });
  return g;
}

}  // namespace keelson::oracle
