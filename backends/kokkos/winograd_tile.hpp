#pragma once

#include "backends/kokkos/common.hpp"

/// The transforms of Winograd's minimal filtering algorithms F(m, r), which make m neighbouring results of a filter
/// with r taps from m + r - 1 elements with m + r - 1 multiplications in place of m r (Winograd, "Arithmetic Complexity
/// of Computations", 1980; Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). In several dims
/// the transforms are applied along one dim after the other.
namespace keelson::kokkos {

/// F(m, r) in one dim: result = A^T [(G filter) . (B^T data)]. The gradients are the transposed algorithms: that of the
/// filter is G^T [(A diff) . (B^T data)]. `V` is a vector of independent channels. F(1, 1) stands for a dim that is not
/// there.
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

/// What algorithms with six multiplications share: the interpolation points 0, a, -a, b, -b and infinity. The usual 0,
/// 1, -1, 2, -2 lose twice as much accuracy: in F(4, 3) 3.1 times the error of a direct convolution in two dims and 5.8
/// in three, these ones 1.8 and 2.3 (normal values, 64 channels).
struct SixPoints {
  static constexpr int points = 6;
  static constexpr float a = 0.625f, b = 1.5f, aa = a * a, bb = b * b;
  static constexpr float of_zero = 1 / (aa * bb), of_a = 1 / (2 * aa * (aa - bb)), of_b = 1 / (2 * bb * (bb - aa));

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

 protected:
  /// The values at a, -a, b and -b of the polynomial with these even and odd parts.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void values(V* x, Index s, V even_a, V odd_a, V even_b, V odd_b) {
    x[s] = even_a + odd_a, x[2 * s] = even_a - odd_a;
    x[3 * s] = even_b + odd_b, x[4 * s] = even_b - odd_b;
  }
  /// Sums and differences of the elements that belong to a and -a, b and -b.
  template <class V>
  struct Pairs {
    V sum_a, difference_a, sum_b, difference_b;
    KOKKOS_FORCEINLINE_FUNCTION Pairs(const V* x, Index s)
        : sum_a(x[s] + x[2 * s]),
          difference_a(x[s] - x[2 * s]),
          sum_b(x[3 * s] + x[4 * s]),
          difference_b(x[3 * s] - x[4 * s]) {}
  };
};

template <>
struct Winograd1d<4, 3> : SixPoints {
  static constexpr int taps = 3;

  /// A^T: the first 4 elements are the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V* x, Index s) {
    const Pairs<V> p(x, s);
    x[0] = x[0] + p.sum_a + p.sum_b;
    x[s] = a * p.difference_a + b * p.difference_b;
    x[2 * s] = aa * p.sum_a + bb * p.sum_b;
    x[3 * s] = x[5 * s] + (a * aa) * p.difference_a + (b * bb) * p.difference_b;
  }
  /// G: the first 3 elements are the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x, Index s) {
    const V g0 = x[0], g1 = x[s], g2 = x[2 * s];
    x[0] = of_zero * g0, x[5 * s] = g2;
    values(x, s, of_a * g0 + (of_a * aa) * g2, (of_a * a) * g1, of_b * g0 + (of_b * bb) * g2, (of_b * b) * g1);
  }
  /// A: the first 4 elements are the gradient of the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V* x, Index s) {
    const V y0 = x[0], y1 = x[s], y2 = x[2 * s], y3 = x[3 * s];
    x[5 * s] = y3;
    values(x, s, y0 + aa * y2, a * y1 + (a * aa) * y3, y0 + bb * y2, b * y1 + (b * bb) * y3);
  }
  /// G^T: the first 3 elements are the gradient of the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x, Index s) {
    const Pairs<V> p(x, s);
    x[0] = of_zero * x[0] + of_a * p.sum_a + of_b * p.sum_b;
    x[s] = (of_a * a) * p.difference_a + (of_b * b) * p.difference_b;
    x[2 * s] = (of_a * aa) * p.sum_a + (of_b * bb) * p.sum_b + x[5 * s];
  }
};

template <>
struct Winograd1d<3, 4> : SixPoints {
  static constexpr int taps = 4;

  /// A^T: the first 3 elements are the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V* x, Index s) {
    const Pairs<V> p(x, s);
    x[0] = x[0] + p.sum_a + p.sum_b;
    x[s] = a * p.difference_a + b * p.difference_b;
    x[2 * s] = x[5 * s] + aa * p.sum_a + bb * p.sum_b;
  }
  /// G: the first 4 elements are the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x, Index s) {
    const V g0 = x[0], g1 = x[s], g2 = x[2 * s], g3 = x[3 * s];
    x[0] = of_zero * g0, x[5 * s] = g3;
    values(x, s, of_a * g0 + (of_a * aa) * g2, (of_a * a) * g1 + (of_a * a * aa) * g3, of_b * g0 + (of_b * bb) * g2,
           (of_b * b) * g1 + (of_b * b * bb) * g3);
  }
  /// A: the first 3 elements are the gradient of the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V* x, Index s) {
    const V y0 = x[0], y1 = x[s], y2 = x[2 * s];
    x[5 * s] = y2;
    values(x, s, y0 + aa * y2, a * y1, y0 + bb * y2, b * y1);
  }
  /// G^T: the first 4 elements are the gradient of the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x, Index s) {
    const Pairs<V> p(x, s);
    x[0] = of_zero * x[0] + of_a * p.sum_a + of_b * p.sum_b;
    x[s] = (of_a * a) * p.difference_a + (of_b * b) * p.difference_b;
    x[2 * s] = (of_a * aa) * p.sum_a + (of_b * bb) * p.sum_b;
    x[3 * s] = (of_a * a * aa) * p.difference_a + (of_b * b * bb) * p.difference_b + x[5 * s];
  }
};

template <>
struct Winograd1d<2, 5> : SixPoints {
  static constexpr int taps = 5;

  /// A^T: the first 2 elements are the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V* x, Index s) {
    const Pairs<V> p(x, s);
    x[0] = x[0] + p.sum_a + p.sum_b;
    x[s] = x[5 * s] + a * p.difference_a + b * p.difference_b;
  }
  /// G: the first 5 elements are the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x, Index s) {
    const V g0 = x[0], g1 = x[s], g2 = x[2 * s], g3 = x[3 * s], g4 = x[4 * s];
    x[0] = of_zero * g0, x[5 * s] = g4;
    values(x, s, of_a * g0 + (of_a * aa) * g2 + (of_a * aa * aa) * g4, (of_a * a) * g1 + (of_a * a * aa) * g3,
           of_b * g0 + (of_b * bb) * g2 + (of_b * bb * bb) * g4, (of_b * b) * g1 + (of_b * b * bb) * g3);
  }
  /// A: the first 2 elements are the gradient of the result.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V* x, Index s) {
    const V y0 = x[0], y1 = x[s];
    x[5 * s] = y1;
    values(x, s, y0, a * y1, y0, b * y1);
  }
  /// G^T: the first 5 elements are the gradient of the filter.
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x, Index s) {
    const Pairs<V> p(x, s);
    x[0] = of_zero * x[0] + of_a * p.sum_a + of_b * p.sum_b;
    x[s] = (of_a * a) * p.difference_a + (of_b * b) * p.difference_b;
    x[2 * s] = (of_a * aa) * p.sum_a + (of_b * bb) * p.sum_b;
    x[3 * s] = (of_a * a * aa) * p.difference_a + (of_b * b * bb) * p.difference_b;
    x[4 * s] = (of_a * aa * aa) * p.sum_a + (of_b * bb * bb) * p.sum_b + x[5 * s];
  }
};

/// A tile of m results of filters with r taps along each of `spatial` dims (2 or 3), as three dims with the last ones
/// in use.
template <int spatial, int m, int r>
struct WinogradTile {
  using Outer = Winograd1d<spatial == 3 ? m : 1, spatial == 3 ? r : 1>;
  using Inner = Winograd1d<m, r>;
  static constexpr int results[3] = {spatial == 3 ? m : 1, m, m};
  static constexpr int points_of[3] = {Outer::points, Inner::points, Inner::points};
  static constexpr int taps_of[3] = {Outer::taps, Inner::taps, Inner::taps};
  static constexpr int points = Outer::points * Inner::points * Inner::points;
  static constexpr Index step[3] = {Inner::points * Inner::points, Inner::points, 1};  ///< in an array of the points

  /// B^T along all dims: x has `points` elements, (d, h, w).
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void data(V* x) {
    lines(points_of[0], points_of[1], 2, x, [](V* l, Index s) { Inner::data(l, s); });
    lines(points_of[0], points_of[2], 1, x, [](V* l, Index s) { Inner::data(l, s); });
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::data(l, s); });
  }
  /// A^T along all dims: the results are left at (d, h, w) below results[].
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void result(V* x) {
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::result(l, s); });
    lines(results[0], points_of[2], 1, x, [](V* l, Index s) { Inner::result(l, s); });
    lines(results[0], results[1], 2, x, [](V* l, Index s) { Inner::result(l, s); });
  }
  /// G along all dims: the filter is at (d, h, w) below taps_of[].
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter(V* x) {
    lines(taps_of[0], taps_of[1], 2, x, [](V* l, Index s) { Inner::filter(l, s); });
    lines(taps_of[0], points_of[2], 1, x, [](V* l, Index s) { Inner::filter(l, s); });
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::filter(l, s); });
  }
  /// A along all dims: the gradient of the results is at (d, h, w) below results[].
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void diff(V* x) {
    lines(results[0], results[1], 2, x, [](V* l, Index s) { Inner::diff(l, s); });
    lines(results[0], points_of[2], 1, x, [](V* l, Index s) { Inner::diff(l, s); });
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::diff(l, s); });
  }
  /// G^T along all dims: the gradient of the filter is left at (d, h, w) below taps_of[].
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static void filter_gradient(V* x) {
    lines(points_of[1], points_of[2], 0, x, [](V* l, Index s) { Outer::filter_gradient(l, s); });
    lines(taps_of[0], points_of[2], 1, x, [](V* l, Index s) { Inner::filter_gradient(l, s); });
    lines(taps_of[0], taps_of[1], 2, x, [](V* l, Index s) { Inner::filter_gradient(l, s); });
  }

 private:
  /// transform(line, step) for the lines along `dim` that start at i < count_a, j < count_b of the other dims.
  template <class V, class Transform>
  KOKKOS_FORCEINLINE_FUNCTION static void lines(int count_a, int count_b, int dim, V* x, const Transform& transform) {
    const Index step_a = dim == 0 ? step[1] : step[0], step_b = dim == 2 ? step[1] : step[2];
    for (int i = 0; i < count_a; ++i)
      for (int j = 0; j < count_b; ++j) transform(x + i * step_a + j * step_b, step[dim]);
  }
};

}  // namespace keelson::kokkos
