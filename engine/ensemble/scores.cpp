#include "engine/ensemble/scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "engine/base/error.hpp"

namespace keelson::ensemble {

double normal_cdf(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

Moments mixture_moments(std::span<const double> means, std::span<const double> variances) {
  KEELSON_EXPECT(!means.empty() && (variances.empty() || variances.size() == means.size()));
  const auto members = static_cast<double>(means.size());
  // Deviations from the first member: equal means leave no rounding.
  double shift = 0;
  for (const double mean : means) shift += mean - means[0];
  shift /= members;
  Moments m;
  m.mean = means[0] + shift;
  for (const double mean : means) {
    const double deviation = mean - means[0] - shift;
    m.epistemic += deviation * deviation / members;
  }
  for (const double variance : variances) m.aleatoric += variance / members;
  return m;
}

double gaussian_nll(double mean, double variance, double y) {
  if (variance <= 0) return std::numeric_limits<double>::infinity();
  const double error = y - mean;
  return error * error / (2 * variance) + std::log(2 * std::numbers::pi * variance) / 2;
}

double gaussian_crps(double mean, double deviation, double y) {
  if (deviation <= 0) return std::abs(y - mean);
  const double z = (y - mean) / deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return deviation * (z * (2 * normal_cdf(z) - 1) + 2 * density - std::numbers::inv_sqrtpi);
}

double crps_of_values(std::span<const double> values, double y, Spread spread) {
  KEELSON_EXPECT(!values.empty());
  const auto members = static_cast<double>(values.size());
  double error = 0, pairs = 0;
  for (const double x : values) {
    error += std::abs(x - y);
    for (const double other : values) pairs += std::abs(x - other);
  }
  if (spread == Spread::plain) return error / members - pairs / (2 * members * members);
  if (values.size() == 1) return std::numeric_limits<double>::quiet_NaN();
  return error / members - pairs / (2 * members * (members - 1));
}

double entropy(std::span<const double> probabilities) {
  double sum = 0;
  for (const double p : probabilities)
    if (p > 0) sum -= p * std::log(p);
  return sum;
}

void softmax(const float* logits, std::ptrdiff_t stride, std::span<double> probabilities) {
  const auto at = [&](std::size_t k) { return logits[static_cast<std::ptrdiff_t>(k) * stride]; };
  float largest = at(0);
  for (std::size_t k = 1; k < probabilities.size(); ++k) largest = std::max(largest, at(k));
  double sum = 0;
  for (std::size_t k = 0; k < probabilities.size(); ++k) {
    probabilities[k] = std::exp(static_cast<double>(at(k)) - static_cast<double>(largest));
    sum += probabilities[k];
  }
  for (double& p : probabilities) p /= sum;
}

}  // namespace keelson::ensemble
