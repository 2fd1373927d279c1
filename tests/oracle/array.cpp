#include "tests/oracle/array.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/philox.hpp"

namespace keelson::oracle {

namespace {

float draw(std::string_view name, std::uint64_t seed, std::int64_t i) {
  return philox::uniform({seed, philox::stream_of(name), 0}, static_cast<std::uint64_t>(i));
}

}  // namespace

Array reshape(Array a, const Shape& shape) {
  KEELSON_EXPECT(shape.elements() == a.elements());
  a.shape = shape;
  return a;
}

Shape indices_of(const Shape& shape, std::int64_t i) {
  Shape indices = Shape::filled(shape.rank(), 0);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    indices[d] = i % shape[d];
    i /= shape[d];
  }
  return indices;
}

double dot(const Array& a, const Array& b) {
  KEELSON_EXPECT(a.shape == b.shape);
  return std::inner_product(a.data.begin(), a.data.end(), b.data.begin(), 0.0);
}

Array random_uniform(const Shape& shape, std::string_view name, double low, double high, std::uint64_t seed) {
  Array a(shape);
  const auto from = static_cast<float>(low), range = static_cast<float>(high - low);
  for (std::int64_t i = 0; i < a.elements(); ++i) a[i] = from + range * draw(name, seed, i);
  return a;
}

Array random_distinct(const Shape& shape, std::string_view name, std::uint64_t seed) {
  const auto n = shape.elements();
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const float u = draw(name, seed, a), v = draw(name, seed, b);
    return u < v || (u == v && a < b);
  });
  Array result(shape);
  for (std::int64_t rank = 0; rank < n; ++rank)
    result[order[static_cast<std::size_t>(rank)]] =
        static_cast<float>(2.0 * static_cast<double>(rank) / static_cast<double>(n) - 1.0);
  return result;
}

Array random_integers(const Shape& shape, std::string_view name, int low, int high, std::uint64_t seed) {
  Array a(shape);
  for (std::int64_t i = 0; i < a.elements(); ++i)
    a[i] = low + std::min(high - low, static_cast<int>(draw(name, seed, i) * static_cast<float>(high - low + 1)));
  return a;
}

}  // namespace keelson::oracle
