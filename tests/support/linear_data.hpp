#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "engine/base/philox.hpp"
#include "engine/data/dataset.hpp"
#include "engine/layers/layers.hpp"

namespace keelson::testing {

/// Samples whose gradients have a known mean and covariance: x from N(0, I) of `features` elements, and
/// y = slope x_0 + noise from N(0, deviation^2). With weights and bias 0, the loss (w x + b - y)^2 has the gradient
/// -2 y (x, 1) for a sample. So G = -2 slope (1, 0, ...), and E y^2 (|x|^2 + 1) gives the trace of the covariance.
class LinearDataset final : public Dataset {
 public:
  static constexpr std::int64_t features = 8;
  static constexpr double slope = 1, deviation = 2;
  /// |G|^2 and the trace of the covariance of the gradients of samples, with parameters of 0.
  static constexpr double gradient_square = 4 * slope * slope;
  static constexpr double trace = 4 * (slope * slope * (features + 2) + deviation * deviation * (features + 1));

  explicit LinearDataset(std::int64_t samples) : samples_(samples), fields_{{"x", {features}}, {"y", {1}}} {}
  std::int64_t size() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override { return std::to_string(samples_) + " linear samples"; }
  void read(std::int64_t index, void* const* dst) const override {
    const philox::Key key{3, 1, static_cast<std::uint64_t>(index)};
    auto* x = static_cast<float*>(dst[0]);
    for (std::uint64_t i = 0; i < features; ++i) x[i] = normal(key, i);
    *static_cast<float*>(dst[1]) =
        static_cast<float>(slope) * x[0] + static_cast<float>(deviation) * normal(key, features);
  }

 private:
  /// By Box and Muller.
  static float normal(const philox::Key& key, std::uint64_t i) {
    const auto u = static_cast<double>(philox::uniform(key, 2 * i)),
               angle = 2 * std::numbers::pi * static_cast<double>(philox::uniform(key, 2 * i + 1));
    return static_cast<float>(std::sqrt(-2 * std::log(1 - u * 0.999999)) * std::cos(angle));
  }

  std::int64_t samples_;
  std::vector<Field> fields_;
};

/// w x + b, which begin with 0, with the loss (w x + b - y)^2.
inline Graph linear_network() {
  Graph g;
  const Var x = g.input("x", {LinearDataset::features}), y = g.input("y", {1});
  const Var p = dense(x, DenseOptions{.features = 1, .weights_init = Init::constant(0)}, "dense");
  g.set_output("prediction", p);
  mse(p, y);
  return g;
}

}  // namespace keelson::testing
