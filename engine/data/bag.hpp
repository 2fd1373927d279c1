#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/philox.hpp"

namespace keelson {

namespace detail {

/// Entry k: the probability that a Poisson variable with mean 1 is at most k, times 2^32.
constexpr auto poisson_thresholds = [] {
  std::array<std::uint64_t, 13> below{};
  double term = 0.36787944117144232160, sum = 0;  // exp(-1) / k!
  for (std::size_t k = 0; k < below.size(); ++k) {
    sum += term;
    below[k] = static_cast<std::uint64_t>(sum * 4294967296.0);
    term /= static_cast<double>(k + 1);
  }
  return below;
}();

}  // namespace detail

/// The weight of a sample in the bag of a network with this seed: Poisson distributed with mean 1, which is how often a
/// sample is drawn if as many samples as a large data set has are drawn with replacement (Breiman, "Bagging
/// predictors", Machine Learning 24, 1996; Oza and Russell, "Online bagging and boosting", AISTATS 2001). 0 for 36.8 %
/// of the samples. Depends on the two numbers alone: the same in all epochs, and on all ranks. `sample`: its number in
/// the data set.
constexpr std::int64_t bag_weight(std::uint64_t seed, std::int64_t sample) {
  const std::uint64_t drawn = philox::bits({seed, philox::stream_of("bag"), 0}, static_cast<std::uint64_t>(sample));
  std::int64_t weight = 0;
  for (const std::uint64_t below : detail::poisson_thresholds) weight += drawn >= below ? 1 : 0;
  return weight;
}

}  // namespace keelson
