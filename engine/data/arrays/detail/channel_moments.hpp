#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::detail {

/// Mean and standard deviation of each channel.
struct ChannelMoments {
  std::vector<double> means;
  std::vector<double> deviations;  ///< 1 for a channel whose elements are all equal
};

/// Makes each of `n` elements (value - mean) / standard deviation. Element i belongs to channel i modulo their number.
void standardise(const ChannelMoments& moments, std::int64_t n, float* elements);

/// The moments of samples of `elements` numbers, whose channels are those of standardise(). `read` writes a sample;
/// each sample is read once, by one rank. The result does not depend on the number of ranks. Throws what `read` throws,
/// on all ranks. `communicator` null: one rank. Collective.
ChannelMoments measure_moments(std::int64_t samples, std::int64_t elements, std::int64_t channels,
                               const std::function<void(std::int64_t sample, float* dst)>& read,
                               Communicator* communicator);

}  // namespace keelson::detail
