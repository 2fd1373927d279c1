#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

double pointwise(double x, double t, const ops::LossParams& p) {
  const double d = x - t, delta = p.delta, size = std::abs(d);
  switch (p.kind) {
    case ops::LossKind::mse:
      return d * d;
    case ops::LossKind::mae:
      return size;
    case ops::LossKind::huber:
      return size <= delta ? d * d / 2 : delta * (size - delta / 2);
    case ops::LossKind::binary_cross_entropy:
      return std::isnan(x) ? x : std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
    case ops::LossKind::mean:
      return x;
    case ops::LossKind::gaussian_nll:
    case ops::LossKind::cross_entropy:
      break;
  }
  fail("loss {} is not pointwise", static_cast<int>(p.kind));
}

/// |d| has the derivative 0 at 0.
double pointwise_derivative(double x, double t, const ops::LossParams& p) {
  const double d = x - t, delta = p.delta, sign = d > 0 ? 1 : d < 0 ? -1 : 0;
  switch (p.kind) {
    case ops::LossKind::mse:
      return 2 * d;
    case ops::LossKind::mae:
      return std::isnan(d) ? d : sign;
    case ops::LossKind::huber:
      return std::isnan(d) || std::abs(d) <= delta ? d : delta * sign;
    case ops::LossKind::binary_cross_entropy:
      return 1 / (1 + std::exp(-x)) - t;
    case ops::LossKind::mean:
      return 1;
    case ops::LossKind::gaussian_nll:
    case ops::LossKind::cross_entropy:
      break;
  }
  fail("loss {} is not pointwise", static_cast<int>(p.kind));
}

/// softplus(s) + 1e-6, stable.
double variance_of(double s) {
  return std::isnan(s) ? s : std::max(s, 0.0) + std::log1p(std::exp(-std::abs(s))) + 1e-6f;
}

/// log sum_f exp(x_f) of one row, stable.
double log_sum_exp(const Array& x, std::int64_t first, std::int64_t count) {
  double largest = x[first], total = 0;
  for (std::int64_t f = 1; f < count; ++f) largest = std::max(largest, x[first + f]);
  for (std::int64_t f = 0; f < count; ++f) total += std::exp(x[first + f] - largest);
  return largest + std::log(total);
}

/// The class of row r: its sample's, or its own where the target has one per row.
std::int64_t label_of(std::int64_t r, const Array& target, std::int64_t rows_per_sample) {
  return static_cast<std::int64_t>(target[target.shape.rank() == 2 ? r : r / rows_per_sample]);
}

/// What row r's loss is multiplied by. Where it is 0 the row is padding, which may hold anything, also NaN, or has the
/// class -1: no term.
double row_factor(std::int64_t r, const Array& target, const Array& weight, const ops::LossParams& p,
                  const ops::StepParams& now, std::int64_t rows_per_sample) {
  if (p.kind == ops::LossKind::cross_entropy && label_of(r, target, rows_per_sample) == -1) return 0;
  const double all = static_cast<double>(now.inverse_samples) * weight[r / rows_per_sample];
  return p.sum_rows ? all : all / static_cast<double>(rows_per_sample);
}

}  // namespace

double loss_forward(const Array& prediction, const Array& target, const Array& weight, const ops::LossParams& p,
                    const ops::StepParams& now, std::int64_t rows_per_sample) {
  const auto rows = prediction.shape[0], features = prediction.shape[1];
  double loss = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto sample = r / rows_per_sample;
    const double factor = row_factor(r, target, weight, p, now, rows_per_sample);
    if (factor == 0) continue;
    double row = 0;
    if (p.kind == ops::LossKind::cross_entropy) {
      const auto label = label_of(r, target, rows_per_sample);
      row = label < 0 || label >= features
                ? std::numeric_limits<double>::quiet_NaN()
                : log_sum_exp(prediction, r * features, features) - prediction[r * features + label];
      for (std::int64_t f = 0; f < features && p.label_smoothing > 0; ++f)
        row += static_cast<double>(p.label_smoothing) *
               (prediction[r * features + label] - prediction[r * features + f]) / static_cast<double>(features);
    } else if (p.kind == ops::LossKind::gaussian_nll) {
      const std::int64_t targets = features / 2;
      for (std::int64_t f = 0; f < targets; ++f) {
        const double d = prediction[r * features + f] - target[sample * targets + f];
        const double v = variance_of(prediction[r * features + targets + f]);
        row += (d * d / (2 * v) + std::log(v) / 2) / static_cast<double>(targets);
      }
    } else {
      for (std::int64_t f = 0; f < features; ++f)
        row +=
            pointwise(prediction[r * features + f], target[sample * features + f], p) / static_cast<double>(features);
    }
    loss += factor * row;
  }
  return loss;
}

Array loss_backward(const Array& prediction, const Array& target, const Array& weight, const ops::LossParams& p,
                    const ops::StepParams& now, std::int64_t rows_per_sample, const ops::LossScale& scale) {
  const auto rows = prediction.shape[0], features = prediction.shape[1];
  const Array probabilities = softmax_forward(prediction, 1);
  const double smoothing = p.label_smoothing;
  Array diff(prediction.shape);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double factor = row_factor(r, target, weight, p, now, rows_per_sample);
    if (factor == 0) continue;
    if (p.kind == ops::LossKind::gaussian_nll) {
      const std::int64_t targets = features / 2;
      for (std::int64_t f = 0; f < targets; ++f) {
        const std::int64_t mean = r * features + f, spread = mean + targets;
        const double d = prediction[mean] - target[r / rows_per_sample * targets + f], s = prediction[spread];
        const double v = variance_of(s), whole = factor * scale.scale / static_cast<double>(targets);
        diff[mean] = whole * d / v;
        diff[spread] = whole * (1 / (2 * v) - d * d / (2 * v * v)) * sigmoid(s);
      }
      continue;
    }
    for (std::int64_t f = 0; f < features; ++f) {
      const auto sample = r / rows_per_sample, at = r * features + f;
      double d;
      if (p.kind == ops::LossKind::cross_entropy)
        d = probabilities[at] - (f == label_of(r, target, rows_per_sample) ? 1 - smoothing : 0) -
            smoothing / static_cast<double>(features);
      else
        d = pointwise_derivative(prediction[at], target[sample * features + f], p) / static_cast<double>(features);
      diff[at] = factor * d * scale.scale;
    }
  }
  return diff;
}

}  // namespace keelson::oracle
