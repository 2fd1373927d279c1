#include "engine/ensemble/class_scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/ensemble/scores.hpp"

namespace keelson::ensemble {
namespace {

constexpr double least_probability = std::numeric_limits<double>::min();

/// First and second derivative of the mean NLL of p^beta by beta.
struct Slope {
  double first = 0, second = 0;
};

Slope slope_of_nll(std::span<const float> logs, std::span<const std::int32_t> truth, double beta) {
  const std::size_t samples = truth.size(), classes = logs.size() / samples;
  Slope slope;
  for (std::size_t n = 0; n < samples; ++n) {
    const float* of_sample = &logs[n * classes];
    const double largest = *std::max_element(of_sample, of_sample + classes);
    double sum = 0, mean = 0, square = 0;
    for (std::size_t k = 0; k < classes; ++k) {
      const double l = of_sample[k], w = std::exp(beta * (l - largest));
      sum += w;
      mean += w * l;
      square += w * l * l;
    }
    mean /= sum;
    slope.first += mean - static_cast<double>(of_sample[truth[n]]);
    slope.second += square / sum - mean * mean;
  }
  slope.first /= static_cast<double>(samples);
  slope.second /= static_cast<double>(samples);
  return slope;
}

}  // namespace

void ClassScores::add(std::span<const double> p, std::int64_t truth) {
  KEELSON_EXPECT(truth >= 0 && truth < static_cast<std::int64_t>(p.size()));
  const auto right = static_cast<std::size_t>(truth);
  double squares = 0;
  for (const double x : p) squares += x * x;
  const auto largest = static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  ++count_;
  if (largest == right) ++correct_;
  nll_.add(-std::log(std::max(p[right], least_probability)));
  brier_.add(squares - 2 * p[right] + 1);
  reliability_.add(p[largest], largest == right);
}

void ClassScores::reduce(Communicator* communicator) {
  std::array<std::int64_t, 2> counts{count_, correct_};
  if (communicator) communicator->allreduce(counts.data(), counts.size(), Reduction::sum);
  std::array<ExactSum, 2> sums{nll_, brier_};
  ExactSum::reduce(sums, communicator);
  count_ = counts[0];
  correct_ = counts[1];
  nll_ = sums[0];
  brier_ = sums[1];
  reliability_.reduce(communicator);
}

ClassEnsemble::ClassEnsemble(std::int64_t members, double temperature, int bins)
    : temperature_(temperature), ensemble_(bins) {
  KEELSON_EXPECT(members > 0 && temperature > 0);
  members_.assign(static_cast<std::size_t>(members), ClassScores(bins));
}

void ClassEnsemble::add(std::span<const double> probabilities, std::int64_t truth) {
  const std::size_t members = members_.size(), classes = probabilities.size() / members;
  KEELSON_EXPECT(classes > 0 && probabilities.size() == classes * members);
  mean_.assign(classes, 0);
  double within = 0;
  for (std::size_t m = 0; m < members; ++m) {
    const auto p = probabilities.subspan(m * classes, classes);
    members_[m].add(p, truth);
    within += entropy(p);
    for (std::size_t k = 0; k < classes; ++k) mean_[k] += p[k];
  }
  double deviation = 0;
  for (std::size_t k = 0; k < classes; ++k) {
    mean_[k] /= static_cast<double>(members);
    double squares = 0, shift = 0;  // from the first member: equal members leave no rounding
    for (std::size_t m = 0; m < members; ++m) shift += probabilities[m * classes + k] - probabilities[k];
    shift /= static_cast<double>(members);
    for (std::size_t m = 0; m < members; ++m) {
      const double d = probabilities[m * classes + k] - probabilities[k] - shift;
      squares += d * d;
    }
    deviation += std::sqrt(squares / static_cast<double>(members)) / static_cast<double>(classes);
  }
  predictive_.add(entropy(mean_));
  within_.add(within / static_cast<double>(members));
  deviation_.add(deviation);
  if (temperature_ == 1) return ensemble_.add(mean_, truth);
  scaled_.resize(classes);
  apply_temperature(mean_, temperature_, scaled_);
  ensemble_.add(scaled_, truth);
}

void ClassEnsemble::reduce(Communicator* communicator) {
  ensemble_.reduce(communicator);
  for (auto& m : members_) m.reduce(communicator);
  std::array<ExactSum, 3> sums{predictive_, within_, deviation_};
  ExactSum::reduce(sums, communicator);
  predictive_ = sums[0];
  within_ = sums[1];
  deviation_ = sums[2];
}

void apply_temperature(std::span<const double> p, double temperature, std::span<double> dst) {
  KEELSON_EXPECT(dst.size() == p.size() && temperature > 0);
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    dst[k] = p[k] > 0 ? std::exp(std::log(p[k] / largest) / temperature) : 0;
    sum += dst[k];
  }
  for (double& x : dst) x /= sum;
}

double fit_temperature(std::span<const float> probabilities, std::span<const std::int32_t> truth) {
  KEELSON_EXPECT(!truth.empty() && !probabilities.empty() && probabilities.size() % truth.size() == 0);
  std::vector<float> logs(probabilities.size());
  std::transform(probabilities.begin(), probabilities.end(), logs.begin(),
                 [](float p) { return std::log(std::max(p, std::numeric_limits<float>::min())); });
  double low = 1.0 / 64, high = 64, beta = 1;
  // A bound is the minimum if the NLL still falls there.
  if (slope_of_nll(logs, truth, low).first >= 0) return 1 / low;
  if (slope_of_nll(logs, truth, high).first <= 0) return 1 / high;
  for (int i = 0; i < 100 && high - low > 1e-12 * high; ++i) {
    const Slope slope = slope_of_nll(logs, truth, beta);
    (slope.first > 0 ? high : low) = beta;
    const double step = slope.first / slope.second;
    const double next = beta - step;
    if (std::abs(step) < 1e-12 * beta) break;
    beta = next > low && next < high ? next : std::sqrt(low * high);
  }
  return 1 / beta;
}

}  // namespace keelson::ensemble
