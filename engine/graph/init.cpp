#include "engine/graph/init.hpp"

#include <cmath>
#include <numbers>

#include "engine/base/philox.hpp"

namespace keelson {

namespace {

/// Box & Muller 1958; 1 - u lies in (0, 1].
double normal(const philox::Key& key, std::uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(philox::uniform(key, 2 * index))));
  return radius * std::cos(2 * std::numbers::pi * philox::uniform(key, 2 * index + 1));
}

/// A normal number of standard deviation 1; numbers outside [-2, 2] (one of 22) are drawn again.
double truncated_normal(philox::Key key, std::uint64_t index) {
  for (key.step = 0;; ++key.step)
    if (const double x = normal(key, index); std::abs(x) <= 2) return x;
}

double uniform_limit(const Init& init, double fan_in, double fan_out) {
  switch (init.kind) {
    case Init::Kind::uniform:
      return init.value;
    case Init::Kind::fan_in_uniform:
      return 1 / std::sqrt(fan_in);
    case Init::Kind::he_uniform:
      return std::sqrt(6 / fan_in);
    default:
      return std::sqrt(6 / (fan_in + fan_out));
  }
}

}  // namespace

std::vector<float> initial_values(const Init& init, const std::string& name, const Shape& shape, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()), init.value);
  if (init.kind == Init::Kind::constant) return values;

  std::int64_t window = 1;
  for (int i = 2; i < shape.rank(); ++i) window *= shape[i];
  const double fan_out = static_cast<double>(shape[0] * window);
  const double fan_in = shape.rank() > 1 ? static_cast<double>(shape[1] * window) : fan_out;
  const philox::Key key{seed, philox::stream_of(name), 0};

  if (init.kind == Init::Kind::he_normal) {
    const double deviation = std::sqrt(2 / fan_in);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(deviation * normal(key, i));
    return values;
  }
  if (init.kind == Init::Kind::he_truncated_normal) {
    const double deviation = std::sqrt(1.3 * 2 / fan_in);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(deviation * truncated_normal(key, i));
    return values;
  }
  const double limit = uniform_limit(init, fan_in, fan_out);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(limit * (2.0 * philox::uniform(key, i) - 1));
  return values;
}

}  // namespace keelson
