#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// Scores of predicted distributions: functions of one prediction and its true value. ClassScores and ValueScores
/// (engine/ensemble/class_scores.hpp, value_scores.hpp) are their means over a data set. All numbers are f64;
/// logarithms are natural, so entropies are in nats.
namespace keelson::ensemble {

/// Distribution function of the standard normal distribution.
double normal_cdf(double z);

/// Mean and variance of a mixture of equally likely distributions, the members' predictions.
struct Moments {
  double mean = 0;       ///< of the mixture
  double aleatoric = 0;  ///< mean of the members' variances: noise in the data, as the members see it
  double epistemic = 0;  ///< variance of the members' means, divisor M: what the members do not agree on
  double variance() const { return aleatoric + epistemic; }  ///< of the mixture
};
/// `means` (M): the members' predictions, M > 0. `variances` (M): their variances; empty: the members predict no
/// variance, and the aleatoric part is 0. The variance of the mixture is mean(s_m^2 + mu_m^2) - mu^2; it is computed
/// from deviations, so equal means give exactly 0 (Lakshminarayanan, Pritzel, Blundell, "Simple and scalable predictive
/// uncertainty estimation using deep ensembles", NeurIPS 2017, section 2.4).
Moments mixture_moments(std::span<const double> means, std::span<const double> variances);

/// Negative logarithm of the normal density: (y - mean)^2 / (2 variance) + log(2 pi variance) / 2. Infinite for a
/// variance of 0.
double gaussian_nll(double mean, double variance, double y);

/// Continuous ranked probability score of a normal distribution: s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)) with z
/// = (y - mean) / s. For s = 0: |y - mean|. (Gneiting and Raftery, "Strictly proper scoring rules, prediction, and
/// estimation", JASA 102, 2007, section 4.2.)
double gaussian_crps(double mean, double deviation, double y);

/// Whether the spread of the values counts as that of a whole distribution, or of a sample from one.
enum class Spread : std::uint8_t {
  plain,  ///< divisor 2 M^2: the values are the distribution
  fair,   ///< divisor 2 M (M - 1): the values are drawn from it (Ferro, QJRMS 140, 2014); needs M > 1
};
/// CRPS of M values: mean |x_m - y| - sum_mn |x_m - x_n| / divisor. With Spread::fair and one value: NaN. O(M^2).
double crps_of_values(std::span<const double> values, double y, Spread spread);

/// Shannon entropy -sum p log p, with 0 log 0 = 0.
double entropy(std::span<const double> probabilities);

/// Writes the softmax of `count` logits, which lie `stride` apart, to `probabilities` (count): stable (the maximum is
/// subtracted).
void softmax(const float* logits, std::ptrdiff_t stride, std::span<double> probabilities);

}  // namespace keelson::ensemble
