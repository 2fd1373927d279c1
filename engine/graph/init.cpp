#include "engine/graph/init.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

#include "engine/base/philox.hpp"
#include "engine/ops/device.hpp"

namespace keelson {

namespace {

/// The normal number of standard deviation 1 of two uniform ones. Box & Muller 1958; 1 - u lies in (0, 1].
double normal(std::uint32_t bits, std::uint32_t next_bits) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(philox::uniform(bits))));
  return radius * std::cos(2 * std::numbers::pi * philox::uniform(next_bits));
}

/// Normal numbers of standard deviation 1. One block of random bits serves two of them.
class Normals {
 public:
  explicit Normals(const philox::Key& key) : key_(key) {}
  double operator()(std::uint64_t index) {
    if (const std::uint64_t number = index / 2; number != number_) bits_ = philox::block(key_, number_ = number);
    return index % 2 == 0 ? normal(bits_[0], bits_[1]) : normal(bits_[2], bits_[3]);
  }

 private:
  philox::Key key_;
  std::uint64_t number_ = ~std::uint64_t{0};
  philox::Block bits_{};
};

/// The same, but numbers outside [-2, 2] (one of 22) are drawn again.
class TruncatedNormals {
 public:
  explicit TruncatedNormals(const philox::Key& key) : key_(key), first_draws_(key) {}
  double operator()(std::uint64_t index) {
    double x = first_draws_(index);
    for (philox::Key again = key_; std::abs(x) > 2;) {
      ++again.step;
      x = Normals(again)(index);
    }
    return x;
  }

 private:
  philox::Key key_;
  Normals first_draws_;
};

/// Uniform between -1 and 1.
class Uniforms {
 public:
  explicit Uniforms(const philox::Key& key) : key_(key) {}
  double operator()(std::uint64_t index) {
    if (const std::uint64_t number = index / 4; number != number_) bits_ = philox::block(key_, number_ = number);
    return 2.0 * philox::uniform(bits_[index % 4]) - 1;
  }

 private:
  philox::Key key_;
  std::uint64_t number_ = ~std::uint64_t{0};
  philox::Block bits_{};
};

/// Fills `values` with `factor` times the numbers that each thread's own Draws makes.
template <class Draws>
void draw(std::vector<float>& values, double factor, const philox::Key& key, Device* device) {
  const auto part = [&](std::int64_t first, std::int64_t last) {
    Draws draws(key);
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i)
      values[i] = static_cast<float>(factor * draws(i));
  };
  if (device)
    device->for_parts_on_host(std::ssize(values), part);
  else
    part(0, std::ssize(values));
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

std::vector<float> initial_values(const Init& init, const std::string& name, const Shape& shape, std::uint64_t seed,
                                  Device* device) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()), init.value);
  if (init.kind == Init::Kind::constant) return values;

  std::int64_t window = 1;
  for (int i = 2; i < shape.rank(); ++i) window *= shape[i];
  const double fan_out = static_cast<double>(shape[0] * window);
  const double fan_in = shape.rank() > 1 ? static_cast<double>(shape[1] * window) : fan_out;
  const philox::Key key{seed, philox::stream_of(name), 0};

  if (init.kind == Init::Kind::he_normal)
    draw<Normals>(values, std::sqrt(2 / fan_in), key, device);
  else if (init.kind == Init::Kind::he_truncated_normal)
    draw<TruncatedNormals>(values, std::sqrt(1.3 * 2 / fan_in), key, device);
  else
    draw<Uniforms>(values, uniform_limit(init, fan_in, fan_out), key, device);
  return values;
}

}  // namespace keelson
