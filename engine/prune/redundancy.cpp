#include "engine/prune/redundancy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/prune/detail/slices.hpp"

namespace keelson {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// m += X^T X for rows X of n numbers, the lower triangle alone. Sums of 64 products are in single precision.
class GramSum {
 public:
  GramSum(std::vector<double>& m, std::int64_t n) : m_(m), n_(n), rows_(at(unrolled * n)), part_(at(n * n)) {}
  ~GramSum() { flush(); }
  GramSum(const GramSum&) = delete;

  /// The next row, to be filled.
  float* row() {
    if (filled_ == unrolled) add_rows();
    return &rows_[at(filled_++ * n_)];
  }

 private:
  static constexpr std::int64_t unrolled = 8, in_single = 64;

  void add_rows() {
    for (std::int64_t i = 0; i < n_; i += 2) {
      const std::int64_t second = std::min(i + 1, n_ - 1);  // two results at once, for fewer loads
      float *const to = &part_[at(i * n_)], *const to_second = &part_[at(second * n_)];
      const float* x[unrolled];
      float by[unrolled], by_second[unrolled];
      for (std::int64_t r = 0; r < unrolled; ++r) {
        x[r] = &rows_[at(r * n_)];
        by[r] = x[r][i];
        by_second[r] = second > i ? x[r][second] : 0;
      }
      for (std::int64_t j = 0; j <= second; ++j) {
        float sum = 0, sum_second = 0;
        for (std::int64_t r = 0; r < unrolled; ++r) {
          sum += by[r] * x[r][j];
          sum_second += by_second[r] * x[r][j];
        }
        to[j] += sum;
        to_second[j] += sum_second;
      }
    }
    std::ranges::fill(rows_, 0.0f);
    filled_ = 0;
    if ((added_ += unrolled) == in_single) flush_part();
  }
  void flush() {
    add_rows();
    flush_part();
  }
  void flush_part() {
    for (std::size_t i = 0; i < part_.size(); ++i) m_[i] += double{part_[i]};
    std::ranges::fill(part_, 0.0f);
    added_ = 0;
  }

  std::vector<double>& m_;
  std::int64_t n_, filled_ = 0, added_ = 0;
  std::vector<float> rows_, part_;
};

void mirror(std::vector<double>& m, std::int64_t n, double factor) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) m[at(i * n + j)] = m[at(j * n + i)] = factor * m[at(i * n + j)];
}

/// Sum of a_ij b_ij: the variance of the results of layers with weights of the Gram matrix a, for units of moments b.
double trace_of_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Adds what makes a matrix of moments safe to invert, also where units are zero or equal.
void add_ridge(std::vector<double>& m, std::int64_t n) {
  double trace = 0;
  for (std::int64_t i = 0; i < n; ++i) trace += m[at(i * n + i)];
  const double ridge = trace > 0 ? 1e-4 * trace / static_cast<double>(n) : 1;
  for (std::int64_t i = 0; i < n; ++i) m[at(i * n + i)] += ridge;
}

/// The Cholesky factor L of a positive definite matrix, in its lower triangle. Rows, so that the inner loop is long.
void cholesky(std::vector<double>& m, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) {
    const double pivot = std::sqrt(m[at(k * n + k)]);
    m[at(k * n + k)] = pivot;
    for (std::int64_t i = k + 1; i < n; ++i) m[at(k * n + i)] = m[at(i * n + k)] = m[at(i * n + k)] / pivot;
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double by = m[at(i * n + k)];
      for (std::int64_t j = k + 1; j <= i; ++j) m[at(i * n + j)] -= by * m[at(k * n + j)];
    }
  }
}

/// x := (L L^T)^-1 x for x of (n, columns).
void solve(const std::vector<double>& l, std::int64_t n, std::vector<double>& x, std::int64_t columns) {
  const auto subtract = [&](std::int64_t to, std::int64_t from, double by) {
    for (std::int64_t c = 0; c < columns; ++c) x[at(to * columns + c)] -= by * x[at(from * columns + c)];
  };
  const auto divide = [&](std::int64_t row) {
    for (std::int64_t c = 0; c < columns; ++c) x[at(row * columns + c)] /= l[at(row * n + row)];
  };
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < i; ++k) subtract(i, k, l[at(i * n + k)]);
    divide(i);
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    for (std::int64_t k = i + 1; k < n; ++k) subtract(i, k, l[at(k * n + i)]);
    divide(i);
  }
}

std::vector<double> inverse(std::vector<double> m, std::int64_t n) {
  cholesky(m, n);
  std::vector<double> x(m.size());
  for (std::int64_t i = 0; i < n; ++i) x[at(i * n + i)] = 1;
  solve(m, n, x, n);
  return x;
}

}  // namespace

ValueStatistics statistics_of(const ValueObservations& observations) {
  ValueStatistics all;
  for (const auto& [node, observed] : observations) {
    const std::size_t channels = observed.values.size() / at(std::max<std::int64_t>(observed.rows, 1));
    std::vector<double> sum(channels), squares(channels);
    for (std::size_t i = 0; i < observed.values.size(); ++i) {
      const double v = observed.values[i];
      sum[i % channels] += v;
      squares[i % channels] += v * v;
    }
    ChannelStatistics& s = all[node];
    for (std::size_t c = 0; c < channels; ++c) {
      const double mean = sum[c] / static_cast<double>(observed.rows);
      s.mean.push_back(mean);
      s.variance.push_back(std::max(squares[c] / static_cast<double>(observed.rows) - mean * mean, 0.0));
      s.active.push_back(squares[c] > 0);
    }
  }
  return all;
}

UnitRedundancy::UnitRedundancy(const UnitGroup& group, const std::map<std::string, Shape>& shapes,
                               const ParameterValues& values, const ValueObservations& observations,
                               const std::vector<std::int64_t>& gone)
    : group_(group), shapes_(shapes) {
  for (std::int64_t u = 0; u < group.units; ++u)
    if (std::ranges::find(gone, u) == gone.end()) live_.push_back(u);
  for (const UnitPlace& place : group.places) {
    if (place.readers.empty()) continue;
    Source of{.centered = std::ranges::none_of(place.readers, [](const UnitReader& r) { return r.bias.empty(); })};
    for (const UnitReader& r : place.readers) of.values.push_back(r.value);
    auto source = std::ranges::find_if(
        sources_, [&](const Source& s) { return s.values == of.values && s.centered == of.centered; });
    if (source == sources_.end()) source = sources_.insert(sources_.end(), std::move(of));
    source->places.push_back(&place);
  }
  for (Source& source : sources_) {
    observe(source, observations);
    for (const UnitPlace* place : source.places) add_weights(source, *place, values);
  }
}

void UnitRedundancy::observe(Source& source, const ValueObservations& observations) const {
  const std::int64_t n = group_.units;
  const auto& indices = source.places.front()->indices;
  const std::int64_t slots = std::ssize(indices.front());
  source.moments.assign(at(n * n), 0);
  std::int64_t count = 0;
  for (const int value : source.values) {
    const ChannelObservations& observed = observations.at(value);
    const std::int64_t channels = std::ssize(observed.values) / observed.rows;
    auto& mean = source.mean.emplace_back(at(channels));
    if (source.centered)
      for (std::size_t i = 0; i < observed.values.size(); ++i)
        mean[i % at(channels)] += double{observed.values[i]} / static_cast<double>(observed.rows);
    GramSum sum(source.moments, n);
    for (std::int64_t row = 0; row < observed.rows; ++row)
      for (std::int64_t k = 0; k < slots; ++k) {
        float* const x = sum.row();
        for (std::int64_t u = 0; u < n; ++u) {
          const auto c = indices[at(u)][at(k)];
          x[u] = static_cast<float>(observed.values[at(row * channels + c)] - mean[at(c)]);
        }
      }
    count += observed.rows * slots;
  }
  mirror(source.moments, n, 1 / static_cast<double>(count));
  source.gram.assign(at(n * n), 0);
}

void UnitRedundancy::add_weights(Source& source, const UnitPlace& place, const ParameterValues& values) const {
  const std::int64_t n = group_.units;
  const Shape& shape = shapes_.at(place.parameter);
  const auto& array = values.at(place.parameter);
  Matrix gram(at(n * n));
  for (std::size_t k = 0; k < place.indices.front().size(); ++k) {
    std::vector<std::vector<std::size_t>> elements(at(n));
    for (const auto u : live_)
      for_each_at(shape, place.dim, place.indices[at(u)][k], [&](std::size_t e) { elements[at(u)].push_back(e); });
    GramSum sum(gram, n);
    for (std::size_t e = 0; e < elements[at(live_.front())].size(); ++e) {
      float* const x = sum.row();
      for (const auto u : live_) x[u] = array[elements[at(u)][e]];
    }
  }
  mirror(gram, n, 1);
  const double variance = trace_of_product(gram, source.moments);
  if (variance <= 0) return;
  for (std::size_t i = 0; i < gram.size(); ++i) source.gram[i] += gram[i] / variance;
}

UnitRedundancy::Matrix UnitRedundancy::part(const Matrix& whole, const std::vector<std::int64_t>& units) const {
  Matrix m;
  m.reserve(units.size() * units.size());
  for (const auto i : units)
    for (const auto j : units) m.push_back(whole[at(i * group_.units + j)]);
  return m;
}

double UnitRedundancy::error_of(const UnitRemoval& removal) const {
  const std::int64_t n = group_.units, j = removal.unit, i = removal.twin;
  double error = 0;
  for (const Source& s : sources_) {
    const auto moment = [&](std::int64_t a, std::int64_t b) { return s.moments[at(a * n + b)]; };
    const double left =
        i < 0 ? moment(j, j)
              : moment(j, j) - 2 * removal.factor * moment(i, j) + removal.factor * removal.factor * moment(i, i);
    error += s.gram[at(j * n + j)] * std::max(left, 0.0);
  }
  return error;
}

std::vector<UnitRedundancy::Candidate> UnitRedundancy::ranked(std::int64_t most) const {
  const std::int64_t n = std::ssize(live_);
  struct Elimination {
    Matrix inverse, gram;
  };
  std::vector<Elimination> of;
  for (const Source& s : sources_) {
    Matrix m = part(s.moments, live_);
    add_ridge(m, n);
    of.push_back({inverse(std::move(m), n), part(s.gram, live_)});
  }
  std::vector<char> stays(at(n), 1);
  std::vector<Candidate> order;
  std::vector<double> c(at(n)), g(at(n));
  while (std::ssize(order) < std::min(most, n - 1)) {
    std::int64_t least = -1;
    double error = 0;
    for (std::int64_t u = 0; u < n; ++u) {
      if (!stays[at(u)]) continue;
      double e = 0;
      for (const auto& [p, gram] : of) e += gram[at(u * n + u)] / p[at(u * n + u)];
      if (least < 0 || e < error) {
        least = u;
        error = e;
      }
    }
    order.push_back({live_[at(least)], error + (order.empty() ? 0 : order.back().error)});
    stays[at(least)] = 0;
    for (auto& [p, gram] : of) {
      // h = - sum of c_i h_i, a_i += c_i a. Rows and columns of a unit that has gone become zeros.
      const double pivot = p[at(least * n + least)], own = gram[at(least * n + least)];
      for (std::int64_t i = 0; i < n; ++i) {
        c[at(i)] = i == least ? 0 : -p[at(least * n + i)] / pivot;
        g[at(i)] = i == least ? 0 : gram[at(least * n + i)];
      }
      for (std::int64_t i = 0; i < n; ++i) {
        if (!stays[at(i)]) continue;
        const double ci = c[at(i)], gi = g[at(i)] + own * ci, pi = ci * pivot;
        double* const to_gram = &gram[at(i * n)];
        double* const to_p = &p[at(i * n)];
        for (std::int64_t k = 0; k < n; ++k) {
          to_gram[k] += ci * g[at(k)] + gi * c[at(k)];
          to_p[k] -= pi * c[at(k)];
        }
        to_gram[least] = to_p[least] = 0;
      }
    }
  }
  return order;
}

UnitRedundancy::Matrix UnitRedundancy::coefficients(const Source& source, const std::vector<std::int64_t>& kept,
                                                    const std::vector<std::int64_t>& gone) const {
  Matrix l = part(source.moments, kept), c;
  for (const auto i : kept)
    for (const auto j : gone) c.push_back(source.moments[at(i * group_.units + j)]);
  add_ridge(l, std::ssize(kept));
  cholesky(l, std::ssize(kept));
  solve(l, std::ssize(kept), c, std::ssize(gone));
  return c;
}

void UnitRedundancy::replace(const std::vector<std::int64_t>& units, ParameterValues& values) const {
  if (units.empty()) return;
  std::vector<std::int64_t> kept;
  for (const auto u : live_)
    if (std::ranges::find(units, u) == units.end()) kept.push_back(u);
  const std::size_t gone = units.size();
  for (const Source& s : sources_) {
    const Matrix c = coefficients(s, kept, units);
    for (const UnitPlace* place : s.places) {
      const Shape& shape = shapes_.at(place->parameter);
      auto& array = values.at(place->parameter);
      for (std::size_t k = 0; k < place->indices.front().size(); ++k) {
        const auto channel = [&](std::int64_t unit) { return place->indices[at(unit)][k]; };
        std::vector<double> outgoing(at(shape.elements() / shape[place->dim]) * gone);  // of the units that go
        for (std::size_t j = 0; j < gone; ++j) {
          std::size_t e = 0;
          for_each_at(shape, place->dim, channel(units[j]),
                      [&](std::size_t from) { outgoing[e++ * gone + j] = array[from]; });
        }
        for (std::size_t r = 0; s.centered && r < place->readers.size(); ++r) {
          auto& bias = values.at(place->readers[r].bias);
          std::vector<double> more(bias.size());
          for (std::size_t j = 0; j < gone; ++j) {
            double constant = s.mean[r][at(channel(units[j]))];
            for (std::size_t i = 0; i < kept.size(); ++i) constant -= c[i * gone + j] * s.mean[r][at(channel(kept[i]))];
            for_each_at(shape, place->dim, channel(units[j]), [&](std::size_t from) {
              more[at(index_along(shape, place->readers[r].dst_dim, from))] += constant * array[from];
            });
          }
          for (std::size_t b = 0; b < bias.size(); ++b) bias[b] += static_cast<float>(more[b]);
        }
        for (std::size_t i = 0; i < kept.size(); ++i) {
          const double* outgoing_of = outgoing.data();
          for_each_at(shape, place->dim, channel(kept[i]), [&](std::size_t to) {
            double sum = array[to];
            for (std::size_t j = 0; j < gone; ++j) sum += c[i * gone + j] * outgoing_of[j];
            array[to] = static_cast<float>(sum);
            outgoing_of += gone;
          });
        }
      }
    }
  }
}

void silence(const UnitGroup& group, const std::vector<std::int64_t>& units, const std::map<std::string, Shape>& shapes,
             ParameterValues& values) {
  for (const UnitPlace& place : group.places) {
    if (place.readers.empty()) continue;
    auto& array = values.at(place.parameter);
    for (const auto u : units)
      for (const auto i : place.indices[static_cast<std::size_t>(u)])
        for_each_at(shapes.at(place.parameter), place.dim, i, [&](std::size_t e) { array[e] = 0; });
  }
}

}  // namespace keelson
