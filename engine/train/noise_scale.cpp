#include "engine/train/noise_scale.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/counted.hpp"

namespace keelson {

NoiseScale noise_scale(const RunState& s) {
  const auto found = s.observed.find(noise_scale_entry);
  if (found == s.observed.end() || found->second.size() != 3) return {};
  const auto& sums = found->second;
  return {.gradient = sums[0] / sums[2], .noise = sums[1] / sums[2]};
}

NoiseScale measured_noise(const Executor::GradientSquares& squares, std::int64_t samples, double weight) {
  constexpr double single_part = 1 - 1e-9;
  const double q = weight > 0 ? squares.part_weights / (weight * weight) : 1;
  if (!squares.finite || q > single_part) return {};
  const double gradient = (squares.whole - squares.parts) / (1 - q);
  return {.gradient = gradient, .noise = (squares.whole - gradient) * static_cast<double>(samples)};
}

void add_measurement(RunState& s, const NoiseScale& measured) {
  if (!std::isfinite(measured.gradient) || !std::isfinite(measured.noise)) return;
  auto& sums = s.observed[noise_scale_entry];
  sums.resize(3);
  const double added[] = {measured.gradient, measured.noise, 1};
  for (std::size_t i = 0; i < 3; ++i) sums[i] = noise_scale_decay * sums[i] + added[i];
}

std::string describe(const NoiseScale& noise, std::int64_t batch) {
  if (!noise.known()) return "gradient noise scale: no step was measured";
  const double scale = noise.samples();
  if (!std::isfinite(scale))
    return "gradient noise scale: not known yet, since the gradient is too small to be told from its noise. Measure "
           "more steps (a smaller --noise-scale), or take a larger batch";
  const double b = static_cast<double>(batch);
  return fmt::format(
      "gradient noise scale: {:.3g} samples. A batch of {} needs {:.3g} times the fewest possible steps (1 + noise "
      "scale / batch), and {:.3g} times the fewest possible samples (1 + batch / noise scale). Larger batches pay up "
      "to about {:.2g} samples, where both are twice the least",
      scale, batch, 1 + scale / b, 1 + b / scale, scale);
}

}  // namespace keelson
