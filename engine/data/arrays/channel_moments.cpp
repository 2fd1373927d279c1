#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/ranks.hpp"
#include "engine/data/arrays/detail/channel_moments.hpp"

namespace keelson::detail {
namespace {

/// The number of elements, and of each channel the mean and the sum of squared differences from it.
struct Moments {
  explicit Moments(std::int64_t channels)
      : means(static_cast<std::size_t>(channels)), squares(static_cast<std::size_t>(channels)) {}
  double count = 0;  ///< elements of each channel
  std::vector<double> means, squares;

  /// Adds those of other elements (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
  /// sample variances", 1979).
  void add(double other_count, const double* other_means, const double* other_squares) {
    if (other_count == 0) return;
    const double all = count + other_count;
    for (std::size_t c = 0; c < means.size(); ++c) {
      const double difference = other_means[c] - means[c];
      means[c] += difference * (other_count / all);
      squares[c] += other_squares[c] + difference * difference * (count * other_count / all);
    }
    count = all;
  }
};

/// Those of one sample.
void find_moments(const std::vector<float>& sample, Moments& m) {
  const std::size_t channels = m.means.size();
  const std::size_t points = sample.size() / channels;
  m.count = static_cast<double>(points);
  std::ranges::fill(m.means, 0);
  std::ranges::fill(m.squares, 0);
  for (std::size_t at = 0; at < sample.size(); at += channels)
    for (std::size_t c = 0; c < channels; ++c) m.means[c] += static_cast<double>(sample[at + c]);
  for (double& mean : m.means) mean /= m.count;
  for (std::size_t at = 0; at < sample.size(); at += channels)
    for (std::size_t c = 0; c < channels; ++c) {
      const double difference = static_cast<double>(sample[at + c]) - m.means[c];
      m.squares[c] += difference * difference;
    }
}

}  // namespace

void standardise(const ChannelMoments& moments, std::int64_t n, float* elements) {
  const auto channels = std::ssize(moments.means);
  const double *const means = moments.means.data(), *const deviations = moments.deviations.data();
  if (channels == 1) {
    const double mean = *means, deviation = *deviations;
    for (std::int64_t i = 0; i < n; ++i)
      elements[i] = static_cast<float>((static_cast<double>(elements[i]) - mean) / deviation);
    return;
  }
  for (std::int64_t i = 0; i < n; i += channels)
    for (std::int64_t c = 0; c < channels; ++c)
      elements[i + c] = static_cast<float>((static_cast<double>(elements[i + c]) - means[c]) / deviations[c]);
}

/// The samples are cut into blocks. One rank adds up the samples of a block, in order, and every rank adds up the
/// blocks in order.
ChannelMoments measure_moments(std::int64_t samples, std::int64_t elements, std::int64_t channels,
                               const std::function<void(std::int64_t sample, float* dst)>& read,
                               Communicator* communicator) {
  constexpr std::int64_t fewest = 16, most = 1024, memory = std::int64_t{1} << 20;
  const std::int64_t blocks = std::min(samples, std::clamp(memory / channels, fewest, most));
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  const auto width = static_cast<std::size_t>(2 * channels);
  std::vector<double> of_blocks(static_cast<std::size_t>(blocks) * width);
  on_each_rank(communicator, [&] {
    std::vector<float> sample(static_cast<std::size_t>(elements));
    Moments of_sample(channels);
    for (std::int64_t b = blocks * rank / ranks; b < blocks * (rank + 1) / ranks; ++b) {
      Moments of_block(channels);
      for (std::int64_t i = samples * b / blocks; i < samples * (b + 1) / blocks; ++i) {
        read(i, sample.data());
        find_moments(sample, of_sample);
        of_block.add(of_sample.count, of_sample.means.data(), of_sample.squares.data());
      }
      double* const to = of_blocks.data() + static_cast<std::size_t>(b) * width;
      std::ranges::copy(of_block.means, to);
      std::ranges::copy(of_block.squares, to + channels);
    }
  });
  if (communicator) communicator->allreduce(of_blocks.data(), of_blocks.size(), Reduction::sum);
  Moments all(channels);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const double* const from = of_blocks.data() + static_cast<std::size_t>(b) * width;
    const std::int64_t n = samples * (b + 1) / blocks - samples * b / blocks, points = n * (elements / channels);
    all.add(static_cast<double>(points), from, from + channels);
  }
  ChannelMoments result{std::move(all.means), std::vector<double>(static_cast<std::size_t>(channels), 1)};
  for (std::size_t c = 0; c < result.deviations.size(); ++c)
    if (all.squares[c] > 0) result.deviations[c] = std::sqrt(all.squares[c] / all.count);
  return result;
}

}  // namespace keelson::detail
