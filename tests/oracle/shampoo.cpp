#include "tests/oracle/shampoo.hpp"

#include <algorithm>
#include <cmath>

namespace keelson::oracle {

namespace {

/// One rotation of Jacobi's method: a(p, q) becomes 0. `v` gets the same rotation of its columns.
void rotate_pair(Array& a, Array& v, std::int64_t n, std::int64_t p, std::int64_t q) {
  if (a[p * n + q] == 0) return;
  const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  for (std::int64_t k = 0; k < n; ++k) {
    const double x = a[k * n + p], y = a[k * n + q];
    a[k * n + p] = c * x - s * y;
    a[k * n + q] = s * x + c * y;
  }
  for (std::int64_t k = 0; k < n; ++k) {
    const double x = a[p * n + k], y = a[q * n + k];
    a[p * n + k] = c * x - s * y;
    a[q * n + k] = s * x + c * y;
  }
  for (std::int64_t k = 0; k < n; ++k) {
    const double x = v[k * n + p], y = v[k * n + q];
    v[k * n + p] = c * x - s * y;
    v[k * n + q] = s * x + c * y;
  }
}

double sum_of_squares(const Array& a) { return dot(a, a); }

}  // namespace

Array inverse_root(const Array& matrix, double epsilon, int root, double floor) {
  const std::int64_t n = matrix.shape[0];
  Array a = matrix, v({n, n});
  for (std::int64_t i = 0; i < n; ++i) v[i * n + i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) off += a[p * n + q] * a[p * n + q];
    if (off <= 1e-40 * sum_of_squares(matrix)) break;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) rotate_pair(a, v, n, p, q);
  }
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, a[i * n + i]);
  Array result({n, n});
  for (std::int64_t k = 0; k < n; ++k) {
    const double power = std::pow(std::max(a[k * n + k], floor * largest) + epsilon, -1.0 / root);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) result[i * n + j] += power * v[i * n + k] * v[j * n + k];
  }
  return result;
}

Array gram(const Array& g, int dim) {
  const std::int64_t n = g.shape[dim];
  Array result({n, n});
  std::int64_t behind = 1;
  for (int i = dim + 1; i < g.shape.rank(); ++i) behind *= g.shape[i];
  for (std::int64_t e = 0; e < g.elements(); ++e) {
    const std::int64_t i = e / behind % n;
    for (std::int64_t j = 0; j < n; ++j) result[i * n + j] += g[e] * g[e + (j - i) * behind];
  }
  return result;
}

Array multiply_along(const Array& a, const Array& matrix, int dim) {
  const std::int64_t n = a.shape[dim];
  std::int64_t behind = 1;
  for (int i = dim + 1; i < a.shape.rank(); ++i) behind *= a.shape[i];
  Array result(a.shape);
  for (std::int64_t e = 0; e < a.elements(); ++e) {
    const std::int64_t i = e / behind % n;
    for (std::int64_t j = 0; j < n; ++j) result[e] += matrix[i * n + j] * a[e + (j - i) * behind];
  }
  return result;
}

ShampooState::ShampooState(const Array& parameter)
    : param(parameter), exp_avg(parameter.shape), exp_avg_sq(parameter.shape), momentum(parameter.shape) {
  for (const auto n : parameter.shape) {
    factors.emplace_back(Shape{n, n});
    roots.emplace_back(Shape{n, n});
    delayed.emplace_back(Shape{n, n});
  }
}

void shampoo(ShampooState& s, const Array& g, const ShampooSettings& o, std::uint64_t step, double lr) {
  const double t = static_cast<double>(step) + 1;
  const auto correction = [&](double beta) { return beta < 1 ? 1 - std::pow(beta, t) : 1.0; };
  const auto share = [](double beta) { return beta < 1 ? 1 - beta : 1.0; };
  const double keep = o.grafting == ops::Graft::adam ? o.beta2 : 1;
  Array graft = g;
  if (o.grafting == ops::Graft::adam || o.grafting == ops::Graft::adagrad)
    for (std::int64_t i = 0; i < g.elements(); ++i) {
      s.exp_avg_sq[i] = keep * s.exp_avg_sq[i] + share(keep) * g[i] * g[i];
      graft[i] = g[i] / (std::sqrt(s.exp_avg_sq[i] / correction(keep)) + o.grafting_epsilon);
    }
  Array direction = g;
  for (int i = 0; i < g.shape.rank(); ++i) {
    Array& factor = s.factors[static_cast<std::size_t>(i)];
    const Array term = gram(g, i);
    for (std::int64_t e = 0; e < factor.elements(); ++e) factor[e] = o.beta2 * factor[e] + share(o.beta2) * term[e];
    Array &root = s.roots[static_cast<std::size_t>(i)], &next = s.delayed[static_cast<std::size_t>(i)];
    if (step >= o.start && (step - o.start) % o.period == 0) {
      Array corrected = factor;
      for (double& v : corrected.data) v /= correction(o.beta2);
      next = inverse_root(corrected, o.epsilon, 2 * g.shape.rank());
    }
    if (step >= o.start + o.delay && (step - o.start - o.delay) % o.period == 0) root = next;
    direction = multiply_along(direction, root, i);
  }
  const double squares = sum_of_squares(direction), wanted = sum_of_squares(graft);
  const bool grafts = o.grafting != ops::Graft::none;
  if (step < o.start + o.delay || (grafts && squares == 0))
    direction = graft;
  else if (grafts)
    for (double& v : direction.data) v *= std::sqrt(wanted / squares);
  for (std::int64_t i = 0; i < g.elements(); ++i) {
    double u = direction[i];
    if (o.beta1 > 0) {
      s.exp_avg[i] = o.beta1 * s.exp_avg[i] + (1 - o.beta1) * u;
      u = s.exp_avg[i] / correction(o.beta1);
    }
    if (o.momentum > 0) u = s.momentum[i] = o.momentum * s.momentum[i] + u;
    s.param[i] -= lr * (o.decay * s.param[i] + u);
  }
}

}  // namespace keelson::oracle
