#pragma once

#include <type_traits>

#include "backends/kokkos/common/tile.hpp"

/// The transforms of Winograd's minimal filtering algorithms F(m, r). F(m, r) computes m neighbouring results of a
/// filter with r taps from m + r - 1 elements, with m + r - 1 multiplications instead of m r (Winograd, "Arithmetic
/// Complexity of Computations", 1980; Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). With
/// several dims, the transforms are applied along one dim after the other.
namespace keelson::kokkos {

/// F(m, r) in one dim: result = A^T [(G filter) . (B^T data)]. The gradients use the transposed algorithms: the
/// gradient of the filter is G^T [(A diff) . (B^T data)]. `V` is a vector of independent channels. F(1, 1) is for a
/// missing dim.
template <int m, int r>
struct Winograd1d;

template <>
struct Winograd1d<1, 1> {
  static constexpr int points = 1, taps = 1;
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void data(V*, Index) {}
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V*, Index) {}
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V*, Index) {}
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V*, Index) {}
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V*, Index) {}
};

/// Interpolation points 0, 1, -1 and infinity.
template <>
struct Winograd1d<2, 3> {
  static constexpr int points = 4, taps = 3;
  /// B^T, in place.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void data(V* x, Index s) {
    const V d0 = x[0], d1 = x[s], d2 = x[2 * s], d3 = x[3 * s];
    x[0] = d0 - d2, x[s] = d1 + d2, x[2 * s] = d2 - d1, x[3 * s] = d1 - d3;
  }
  /// A^T: the first 2 elements are the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V* x, Index s) {
    const V sum = x[s] + x[2 * s], difference = x[s] - x[2 * s];
    x[0] = x[0] + sum, x[s] = difference - x[3 * s];
  }
  /// G: the first 3 elements are the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x, Index s) {
    const V g0 = x[0], g1 = x[s], g2 = x[2 * s], ends = 0.5f * (g0 + g2), middle = 0.5f * g1;
    x[s] = ends + middle, x[2 * s] = ends - middle, x[3 * s] = g2;
  }
  /// A: the first 2 elements are the gradient of the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V* x, Index s) {
    const V y0 = x[0], y1 = x[s];
    x[s] = y0 + y1, x[2 * s] = y0 - y1, x[3 * s] = -y1;
  }
  /// G^T: the first 3 elements are the gradient of the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x, Index s) {
    const V half_sum = 0.5f * (x[s] + x[2 * s]), half_difference = 0.5f * (x[s] - x[2 * s]);
    x[0] = x[0] + half_sum, x[s] = half_difference, x[2 * s] = half_sum + x[3 * s];
  }
};

/// The algorithms with six multiplications: F(4, 3), F(3, 4) and F(2, 5), with the interpolation points 0, a, -a, b, -b
/// and infinity. The usual points 0, 1, -1, 2, -2 lose twice as much accuracy: in F(4, 3), the error is 3.1 times that
/// of a direct convolution in two dims and 5.8 times in three; with these points 1.8 and 2.3 times (normal values, 64
/// channels).
template <int m, int r>
struct Winograd1d {
  static_assert(m + r == 7);
  static constexpr int points = 6, taps = r;

  /// B^T, in place.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void data(V* x, Index s) {
    const V d0 = x[0], d1 = x[s], d2 = x[2 * s], d3 = x[3 * s], d4 = x[4 * s], d5 = x[5 * s];
    const V even_a = d4 - bb * d2, odd_a = d3 - bb * d1, even_b = d4 - aa * d2, odd_b = d3 - aa * d1;
    x[0] = even_a - aa * d2 + (aa * bb) * d0;
    x[s] = even_a + a * odd_a, x[2 * s] = even_a - a * odd_a;
    x[3 * s] = even_b + b * odd_b, x[4 * s] = even_b - b * odd_b;
    x[5 * s] = d5 - (aa + bb) * d3 + (aa * bb) * d1;
  }
  /// A^T: the first m elements are the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V* x, Index s) {
    from_points<m>(x, s, {1, 1, 1});
  }
  /// G: the first r elements are the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x, Index s) {
    to_points<r>(x, s, of_filter());
  }
  /// A: the first m elements are the gradient of the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V* x, Index s) {
    to_points<m>(x, s, {1, 1, 1});
  }
  /// G^T: the first r elements are the gradient of the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x, Index s) {
    from_points<r>(x, s, of_filter());
  }

 private:
  static constexpr float a = 0.625f, b = 1.5f, aa = a * a, bb = b * b;

  /// Factors of the points 0, a and -a, b and -b.
  struct Factors {
    float of_zero, of_a, of_b;
  };
  KOKKOS_FORCEINLINE_FUNCTION static constexpr Factors of_filter() {
    return {1 / (aa * bb), 1 / (2 * aa * (aa - bb)), 1 / (2 * bb * (bb - aa))};
  }
  KOKKOS_FORCEINLINE_FUNCTION static constexpr float power(float x, int n) {
    float p = 1;
    for (int i = 0; i < n; ++i) p *= x;
    return p;
  }

  /// Evaluates the polynomial whose coefficients are the first `count` elements at the points. The value at infinity is
  /// the last coefficient.
  template <int count, class V>
  KOKKOS_FORCEINLINE_FUNCTION static void to_points(V* x, Index s, const Factors& f) {
    V even_a = f.of_a * x[0], odd_a = (f.of_a * a) * x[s], even_b = f.of_b * x[0], odd_b = (f.of_b * b) * x[s];
    KEELSON_UNROLL
    for (int k = 2; k < count; ++k) {
      V &sum_a = k % 2 == 0 ? even_a : odd_a, &sum_b = k % 2 == 0 ? even_b : odd_b;
      sum_a += (f.of_a * power(a, k)) * x[k * s];
      sum_b += (f.of_b * power(b, k)) * x[k * s];
    }
    x[5 * s] = x[(count - 1) * s], x[0] = f.of_zero * x[0];
    x[s] = even_a + odd_a, x[2 * s] = even_a - odd_a;
    x[3 * s] = even_b + odd_b, x[4 * s] = even_b - odd_b;
  }
  /// The transpose of to_points().
  template <int count, class V>
  KOKKOS_FORCEINLINE_FUNCTION static void from_points(V* x, Index s, const Factors& f) {
    const V even_a = x[s] + x[2 * s], odd_a = x[s] - x[2 * s], even_b = x[3 * s] + x[4 * s],
            odd_b = x[3 * s] - x[4 * s], last = x[5 * s];
    x[0] = f.of_zero * x[0] + f.of_a * even_a + f.of_b * even_b;
    KEELSON_UNROLL
    for (int k = 1; k < count; ++k) {
      const V &of_a = k % 2 == 0 ? even_a : odd_a, &of_b = k % 2 == 0 ? even_b : odd_b;
      x[k * s] = (f.of_a * power(a, k)) * of_a + (f.of_b * power(b, k)) * of_b;
    }
    x[(count - 1) * s] += last;
  }
};

/// A tile of m results of filters with r taps along each of `spatial` dims (2 or 3). A tile always has three dims; the
/// last `spatial` of them are used.
template <int spatial, int m, int r>
struct WinogradTile {
  using Outer = Winograd1d<spatial == 3 ? m : 1, spatial == 3 ? r : 1>;
  using Inner = Winograd1d<m, r>;
  static constexpr int results[3] = {spatial == 3 ? m : 1, m, m};
  static constexpr int points_of[3] = {Outer::points, Inner::points, Inner::points};
  static constexpr int taps_of[3] = {Outer::taps, Inner::taps, Inner::taps};
  static constexpr int points = Outer::points * Inner::points * Inner::points;
  static constexpr Index step[3] = {Inner::points * Inner::points, Inner::points, 1};  ///< in an array of the points

  /// B^T along all dims. get_line(d, h, line) writes the elements (d, h, 0 to points_of[2]) to line; put(point, value)
  /// is called for each point.
  template <class V, class GetLine, class Put>
  KOKKOS_FORCEINLINE_FUNCTION static void data(const GetLine& get_line, const Put& put) {
    V x[points];
    for (int d = 0; d < points_of[0]; ++d)
      for (int h = 0; h < points_of[1]; ++h) {
        V line[points_of[2]];
        get_line(d, h, line);
        Inner::data(line, 1);
        copy_line(line, x + d * step[0] + h * step[1]);
      }
    if constexpr (first_dim == 0) lines(points_of[0], points_of[2], 1, x, [](V* l, Index s) { Inner::data(l, s); });
    first_lines([&](int p) {
      V line[points_of[first_dim]];
      get_first<points_of[first_dim]>([&](int q) { return x[q]; }, p, line);
      First::data(line, 1);
      put_first<points_of[first_dim]>(line, p, put);
    });
  }
  /// A^T along all dims, for the values get(point): writes the results to (d, h, w) of x below results[].
  template <class V, class Get>
  KOKKOS_FORCEINLINE_FUNCTION static void result(const Get& get, V* x) {
    first_lines([&](int p) {
      V line[points_of[first_dim]];
      get_first<points_of[first_dim]>(get, p, line);
      First::result(line, 1);
      put_first<results[first_dim]>(line, p, [&](int q, const V& v) { x[q] = v; });
    });
    if constexpr (first_dim == 0) lines(results[0], points_of[2], 1, x, [](V* l, Index s) { Inner::result(l, s); });
    lines(results[0], results[1], 2, x, [](V* l, Index s) { Inner::result(l, s); });
  }
  /// G along all dims: the filter is at (d, h, w) below taps_of[].
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x) {
    lines(taps_of[0], taps_of[1], 2, x, [](V* l, Index s) { Inner::filter(l, s); });
    lines(taps_of[0], points_of[2], 1, x, [](V* l, Index s) { Inner::filter(l, s); });
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::filter(l, s); });
  }
  /// A along all dims. get_line(d, h, line), d and h below results[], writes results[2] gradients to line;
  /// put(point, value) is called for each point.
  template <class V, class GetLine, class Put>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(const GetLine& get_line, const Put& put) {
    V x[points];
    for (int d = 0; d < results[0]; ++d)
      for (int h = 0; h < results[1]; ++h) {
        V line[points_of[2]];
        get_line(d, h, line);
        Inner::diff(line, 1);
        copy_line(line, x + d * step[0] + h * step[1]);
      }
    if constexpr (first_dim == 0) lines(results[0], points_of[2], 1, x, [](V* l, Index s) { Inner::diff(l, s); });
    first_lines([&](int p) {
      V line[points_of[first_dim]];
      get_first<results[first_dim]>([&](int q) { return x[q]; }, p, line);
      First::diff(line, 1);
      put_first<points_of[first_dim]>(line, p, put);
    });
  }
  /// G^T along all dims: writes the gradient of the filter to (d, h, w) below taps_of[].
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x) {
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::filter_gradient(l, s); });
    lines(taps_of[0], points_of[2], 1, x, [](V* l, Index s) { Inner::filter_gradient(l, s); });
    lines(taps_of[0], taps_of[1], 2, x, [](V* l, Index s) { Inner::filter_gradient(l, s); });
  }

 private:
  static constexpr int first_dim = 3 - spatial;
  using First = std::conditional_t<first_dim == 0, Outer, Inner>;

  /// use(point) for the first point of each line along first_dim.
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION static void first_lines(const Use& use) {
    for (int p = 0; p < step[first_dim]; ++p) use(p);
  }
  /// The first `count` elements of the line along first_dim that begins at point p.
  template <int count, class V, class Get>
  KOKKOS_FORCEINLINE_FUNCTION static void get_first(const Get& get, int p, V* line) {
    KEELSON_UNROLL
    for (int i = 0; i < count; ++i) line[i] = get(p + i * static_cast<int>(step[first_dim]));
  }
  template <int count, class V, class Put>
  KOKKOS_FORCEINLINE_FUNCTION static void put_first(const V* line, int p, const Put& put) {
    KEELSON_UNROLL
    for (int i = 0; i < count; ++i) put(p + i * static_cast<int>(step[first_dim]), line[i]);
  }
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void copy_line(const V* line, V* to) {
    KEELSON_UNROLL
    for (int i = 0; i < points_of[2]; ++i) to[i] = line[i];
  }
  /// transform(line, step) for the lines along `dim` that start at i < count_a, j < count_b of the other dims.
  template <class V, class Transform>
  KOKKOS_FORCEINLINE_FUNCTION static void lines(int count_a, int count_b, int dim, V* x, const Transform& transform) {
    const Index step_a = dim == 0 ? step[1] : step[0], step_b = dim == 2 ? step[1] : step[2];
    for (int i = 0; i < count_a; ++i)
      for (int j = 0; j < count_b; ++j) transform(x + i * step_a + j * step_b, step[dim]);
  }
};

}  // namespace keelson::kokkos
