#pragma once

#include <string_view>
#include <vector>

#include "engine/tensor/shape.hpp"

namespace keelson::oracle {

/// A float64 array in row-major order: the currency of the oracle and of the tests' comparisons.
struct Array {
  Shape shape;
  std::vector<double> data;

  Array() = default;  ///< empty: "no such operand"
  explicit Array(const Shape& s, double fill = 0) : shape(s), data(static_cast<std::size_t>(s.elements()), fill) {}
  Array(const Shape& s, std::vector<double> values) : shape(s), data(std::move(values)) {
    KEELSON_EXPECT(static_cast<std::int64_t>(data.size()) == s.elements());
  }

  bool empty() const { return data.empty(); }
  std::int64_t elements() const { return static_cast<std::int64_t>(data.size()); }
  double operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
  double& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
};

/// The same data under another shape of as many elements.
Array reshape(Array a, const Shape& shape);

/// Logical indices of the element at row-major offset `i`.
Shape indices_of(const Shape& shape, std::int64_t i);

double dot(const Array& a, const Array& b);

/// Uniform in [low, high), each value exact in f32; a pure function of (seed, name, index).
Array random_uniform(const Shape& shape, std::string_view name, double low = -1, double high = 1,
                     std::uint64_t seed = 7);

/// A random order of distinct values spaced evenly in [-1, 1]: no ties, and finite differences smaller than the spacing
/// keep the order.
Array random_distinct(const Shape& shape, std::string_view name, std::uint64_t seed = 7);

/// Random small integers in [low, high]: full of ties and of exact zeros.
Array random_integers(const Shape& shape, std::string_view name, int low, int high, std::uint64_t seed = 7);

/// d f / d x at every element, by central differences of f at x +- h. In f64 with h = 1e-5: rounding 1e-16 / h plus
/// truncation h^2.
template <class F>
Array differences(const F& f, Array x, double h = 1e-5) {
  Array d(x.shape);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = f(x);
    x[i] = at - h;
    d[i] = (above - f(x)) / (2 * h);
    x[i] = at;
  }
  return d;
}

}  // namespace keelson::oracle
