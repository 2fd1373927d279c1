#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/philox.hpp"
#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

double value(double x, const ops::EltwiseParams& p) {
  const double alpha = p.alpha, beta = p.beta;
  switch (p.kind) {
    case ops::EltwiseKind::identity:
      return x;
    case ops::EltwiseKind::relu:
      return std::isnan(x) || x > 0 ? x : 0;
    case ops::EltwiseKind::leaky_relu:
      return x > 0 ? x : alpha * x;
    case ops::EltwiseKind::tanh:
      return std::tanh(x);
    case ops::EltwiseKind::sigmoid:
      return sigmoid(x);
    case ops::EltwiseKind::gelu:
      return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
    case ops::EltwiseKind::silu:
      return x * sigmoid(x);
    case ops::EltwiseKind::elu:
      return x > 0 ? x : alpha * std::expm1(x);
    case ops::EltwiseKind::softplus:
      return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case ops::EltwiseKind::linear:
      return alpha * x + beta;
    case ops::EltwiseKind::abs:
      return std::abs(x);
    case ops::EltwiseKind::exp:
      return std::exp(x);
    case ops::EltwiseKind::log:
      return std::log(x);
    case ops::EltwiseKind::power:
      return std::pow(x, alpha);
  }
  fail("unknown element-wise kind {}", static_cast<int>(p.kind));
}

double derivative(double x, const ops::EltwiseParams& p) {
  switch (p.kind) {
    case ops::EltwiseKind::identity:
      return 1;
    case ops::EltwiseKind::relu:
      return x > 0 ? 1 : 0;
    case ops::EltwiseKind::leaky_relu:
      return x > 0 ? 1 : p.alpha;
    case ops::EltwiseKind::tanh:
      return 1 - std::tanh(x) * std::tanh(x);
    case ops::EltwiseKind::sigmoid:
      return sigmoid(x) * (1 - sigmoid(x));
    case ops::EltwiseKind::gelu: {
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      return (1 + std::erf(x / std::numbers::sqrt2)) / 2 + x * density;
    }
    case ops::EltwiseKind::silu:
      return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
    case ops::EltwiseKind::elu:
      return x > 0 ? 1 : p.alpha * std::exp(x);
    case ops::EltwiseKind::softplus:
      return sigmoid(x);
    case ops::EltwiseKind::linear:
      return p.alpha;
    case ops::EltwiseKind::abs:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case ops::EltwiseKind::exp:
      return std::exp(x);
    case ops::EltwiseKind::log:
      return 1 / x;
    case ops::EltwiseKind::power:
      return p.alpha == 0 ? 0 : p.alpha * std::pow(x, static_cast<double>(p.alpha) - 1);
  }
  fail("unknown element-wise kind {}", static_cast<int>(p.kind));
}

}  // namespace

Array eltwise_forward(const Array& src, const ops::EltwiseParams& p) {
  Array dst(src.shape);
  for (std::int64_t i = 0; i < src.elements(); ++i) dst[i] = value(src[i], p);
  return dst;
}

Array eltwise_backward(const Array& diff_dst, const Array& src, const ops::EltwiseParams& p) {
  KEELSON_EXPECT(diff_dst.shape == src.shape);
  Array diff_src(src.shape);
  for (std::int64_t i = 0; i < src.elements(); ++i) diff_src[i] = diff_dst[i] * derivative(src[i], p);
  return diff_src;
}

Array dropout(const Array& src, const ops::DropoutParams& p, const ops::StepParams& now, std::int64_t rows_per_sample) {
  Array dst(src.shape);
  const auto row_elements = src.elements() / src.shape[0];
  for (std::int64_t i = 0; i < src.elements(); ++i) {
    const auto row = now.sample_offset * rows_per_sample + i / row_elements;
    const auto index = static_cast<std::uint64_t>(row * row_elements + i % row_elements);
    const bool kept = philox::uniform({now.seed, p.stream, now.step}, index) >= p.rate;
    dst[i] = kept ? src[i] / (1 - static_cast<double>(p.rate)) : 0;
  }
  return dst;
}

}  // namespace keelson::oracle
