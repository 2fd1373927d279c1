#include "tests/oracle/kfac.hpp"

#include <cmath>
#include <utility>

namespace keelson::oracle {

Array patch_rows(const Array& src, const ops::ConvParams& window, bool ones) {
  const int spatial = window.kernel.rank();
  Shape places{src.shape[0]}, taps;
  if (spatial > 0) {
    const Shape dst = ops::conv_dst_shape(src.shape, window, window.groups);
    for (int i = 0; i < spatial; ++i) places.push_back(dst[2 + i]), taps.push_back(window.kernel[i]);
  }
  const std::int64_t channels = src.shape[1], tap_count = spatial > 0 ? taps.elements() : 1,
                     columns = tap_count * channels + (ones ? 1 : 0);
  Array rows({places.elements(), columns});
  for (std::int64_t row = 0; row < places.elements(); ++row) {
    const Shape place = indices_of(places, row);
    for (std::int64_t t = 0; t < tap_count; ++t)
      for (std::int64_t c = 0; c < channels; ++c) {
        std::int64_t at = place[0] * channels + c;
        bool inside = true;
        const Shape tap = spatial > 0 ? indices_of(taps, t) : Shape();
        for (int i = 0; i < spatial; ++i) {
          const std::int64_t x = place[1 + i] * window.stride[i] - window.pad_begin[i] + tap[i] * window.dilation[i];
          inside = inside && x >= 0 && x < src.shape[2 + i];
          at = at * src.shape[2 + i] + x;
        }
        if (inside) rows[row * columns + t * channels + c] = src[at];
      }
    if (ones) rows[(row + 1) * columns - 1] = 1;
  }
  return rows;
}

Array matrix_product(const Array& a, const Array& b) {
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  Array c({m, n});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

Array transposed(const Array& a) {
  const std::int64_t m = a.shape[0], n = a.shape[1];
  Array t({n, m});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) t[j * m + i] = a[i * n + j];
  return t;
}

Array products_of_rows(const Array& rows) { return matrix_product(transposed(rows), rows); }

namespace {

/// Rows of a block.
std::int64_t block_rows(std::int64_t n, std::int64_t most) {
  if (most <= 0 || n <= most) return n;
  std::int64_t count = 1, rows = 1;
  while (count * most < n) ++count;
  while (count * rows < n) ++rows;
  return rows;
}

}  // namespace

Array diagonal_blocks(const Array& m, std::int64_t most) {
  const std::int64_t n = m.shape[0], size = block_rows(n, most);
  std::int64_t count = 0;
  while (count * size < n) ++count;
  Array blocks({count, size, size});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (i / size == j / size) blocks[(i / size * size + i % size) * size + j % size] = m[i * n + j];
  return blocks;
}

Array block_diagonal(const Array& m, std::int64_t most) {
  const std::int64_t n = m.shape[0], size = block_rows(n, most);
  Array kept({n, n});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i / size * size; j < n && j / size == i / size; ++j) kept[i * n + j] = m[i * n + j];
  return kept;
}

Array solve(const Array& matrix, const Array& right) {
  Array m = matrix, b = right;
  const std::int64_t n = m.shape[0], columns = b.shape[1];
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t pivot = i;
    for (std::int64_t k = i; k < n; ++k)
      if (std::abs(m[k * n + i]) > std::abs(m[pivot * n + i])) pivot = k;
    for (std::int64_t j = 0; j < n; ++j) std::swap(m[i * n + j], m[pivot * n + j]);
    for (std::int64_t j = 0; j < columns; ++j) std::swap(b[i * columns + j], b[pivot * columns + j]);
    for (std::int64_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = m[k * n + i] / m[i * n + i];
      if (factor == 0) continue;
      for (std::int64_t j = i; j < n; ++j) m[k * n + j] -= factor * m[i * n + j];
      for (std::int64_t j = 0; j < columns; ++j) b[k * columns + j] -= factor * b[i * columns + j];
    }
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < columns; ++j) b[i * columns + j] /= m[i * n + i];
  return b;
}

Array factored_direction(const Array& gradient, const Array& a, const Array& g, double damping) {
  const auto mean_of_diagonal = [](const Array& m) {
    double sum = 0;
    for (std::int64_t i = 0; i < m.shape[0]; ++i) sum += m[i * (m.shape[0] + 1)];
    return sum / static_cast<double>(m.shape[0]);
  };
  const double pi = std::sqrt(mean_of_diagonal(a) / mean_of_diagonal(g));
  const auto damped = [](Array m, double epsilon) {
    for (std::int64_t i = 0; i < m.shape[0]; ++i) m[i * (m.shape[0] + 1)] += epsilon;
    return m;
  };
  const Array left = solve(damped(g, std::sqrt(damping) / pi), gradient);
  return transposed(solve(damped(a, std::sqrt(damping) * pi), transposed(left)));
}

Array exact_direction(const Array& gradient, const Array& a, const Array& g, double damping) {
  const std::int64_t rows = g.shape[0], columns = a.shape[0], n = rows * columns;
  Array system({n, n});
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t k = 0; k < rows; ++k)
        for (std::int64_t l = 0; l < columns; ++l)
          system[(i * columns + j) * n + k * columns + l] =
              g[i * rows + k] * a[l * columns + j] + (i == k && j == l ? damping : 0);
  return reshape(solve(system, reshape(gradient, {n, 1})), gradient.shape);
}

Array weights_and_bias_as_matrix(const Array& weights, const Array& bias) {
  const std::int64_t outputs = weights.shape[0], channels = weights.shape[1], inputs = weights.elements() / outputs,
                     taps = inputs / channels, columns = inputs + (bias.empty() ? 0 : 1);
  Array matrix({outputs, columns});
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t t = 0; t < taps; ++t)
        matrix[o * columns + t * channels + c] = weights[(o * channels + c) * taps + t];
    if (!bias.empty()) matrix[(o + 1) * columns - 1] = bias[o];
  }
  return matrix;
}

void split_matrix(const Array& matrix, Array& weights, Array& bias) {
  const std::int64_t outputs = weights.shape[0], channels = weights.shape[1], inputs = weights.elements() / outputs,
                     taps = inputs / channels, columns = matrix.shape[1];
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t t = 0; t < taps; ++t)
        weights[(o * channels + c) * taps + t] = matrix[o * columns + t * channels + c];
    if (!bias.empty()) bias[o] = matrix[(o + 1) * columns - 1];
  }
}

}  // namespace keelson::oracle
