#include "tests/oracle/pixel_loss.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/philox.hpp"

namespace keelson::oracle {

PixelLossResult pixel_loss(const Array& x, const Array& target, const Array& weight, const ops::PixelLossDesc& d,
                           const ops::StepParams& now, double scale) {
  const auto& p = d.params;
  const auto classes = x.shape[1], pixels = x.shape.elements() / x.shape[0] / classes;
  PixelLossResult r{0, Array(x.shape)};
  for (std::int64_t n = 0; n < x.shape[0]; ++n) {
    std::vector<double> counts(static_cast<std::size_t>(classes));
    const auto w = [&](std::int64_t c) {
      return p.class_weights.empty() ? 1.0 : static_cast<double>(p.class_weights[static_cast<std::size_t>(c)]);
    };
    for (std::int64_t q = 0; q < pixels; ++q)
      if (const double c = target[n * pixels + q]; c >= 0) ++counts[static_cast<std::size_t>(c)];
    double counted = 0;
    for (std::int64_t c = 0; c < classes; ++c)
      if (w(c) != 0) {
        const double all = counts[static_cast<std::size_t>(c)];
        counted += p.sampled_pixels > 0 ? std::min<double>(all, p.sampled_pixels) : all;
      }
    const double divisor = p.mean == ops::PixelMean::none  ? 1
                           : p.mean == ops::PixelMean::all ? static_cast<double>(pixels)
                                                           : counted;
    for (std::int64_t q = 0; q < pixels; ++q) {
      const auto c = static_cast<std::int64_t>(target[n * pixels + q]);
      if (weight[n] == 0 || c == -1) continue;
      if (p.sampled_pixels > 0) {
        const auto index = static_cast<std::uint64_t>((now.sample_offset + n) * pixels + q);
        const double u = philox::uniform({now.seed, d.stream, now.step}, index);
        if (!(u * counts[static_cast<std::size_t>(c)] < p.sampled_pixels)) continue;
      }
      const auto at = [&](std::int64_t j) { return (n * classes + j) * pixels + q; };
      double largest = x[at(0)], sum = 0, others = 0;
      for (std::int64_t j = 1; j < classes; ++j) largest = std::max(largest, x[at(j)]);
      for (std::int64_t j = 0; j < classes; ++j) {
        const double e = std::exp(x[at(j)] - largest);
        sum += e;
        if (j != c) others += e;
      }
      const double ce = std::log(sum) + largest - x[at(c)], wrong = others / sum, g = p.focal_gamma;
      const double all = now.inverse_samples * weight[n] * p.factor / divisor * w(c);
      const double focus = g > 0 ? std::pow(wrong, g) : 1;
      r.loss += all * focus * ce;
      // d/dx_j of (1 - q)^g * -log q, with dq/dx_j = q ([j = c] - softmax_j).
      const double slope = g > 0 ? focus + g * (1 - wrong) * std::pow(wrong, g - 1) * ce : 1;
      for (std::int64_t j = 0; j < classes; ++j)
        r.diff[at(j)] = all * slope * (j == c ? -wrong : std::exp(x[at(j)] - largest) / sum) * scale;
    }
  }
  return r;
}

}  // namespace keelson::oracle
