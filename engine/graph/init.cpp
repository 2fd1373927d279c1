#include "engine/graph/init.hpp"

#include <cmath>
#include <numbers>

#include "engine/base/philox.hpp"

namespace keelson {

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
    for (std::size_t i = 0; i < values.size(); ++i) {  // Box & Muller 1958; 1 - u lies in (0, 1]
      const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(philox::uniform(key, 2 * i))));
      values[i] =
          static_cast<float>(deviation * radius * std::cos(2 * std::numbers::pi * philox::uniform(key, 2 * i + 1)));
    }
    return values;
  }
  const double limit = init.kind == Init::Kind::uniform          ? init.value
                       : init.kind == Init::Kind::fan_in_uniform ? 1 / std::sqrt(fan_in)
                                                                 : std::sqrt(6 / (fan_in + fan_out));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(limit * (2.0 * philox::uniform(key, i) - 1));
  return values;
}

}  // namespace keelson
