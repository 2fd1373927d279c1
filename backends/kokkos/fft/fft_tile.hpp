#pragma once

#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/winograd/winograd_vectors.hpp"

/// Discrete Fourier transforms of tiles of 16 x 16 real numbers, for vectors of independent channels.
///
/// A spectrum has 256 numbers, as the tile has: 128 pairs (slots). Slot h * 8 + k is the complex number at frequency
/// (h, k) for k = 1 to 7, and for k = 0 and h = 1 to 7; slots (8 + h) * 8 are those at frequency (h, 8). The numbers at
/// (0, 0), (0, 8), (8, 0) and (8, 8) are real: slot 0 has (0, 0) and (0, 8), slot 64 has (8, 0) and (8, 8). All other
/// frequencies follow, since the tile is real. Spectra are twice the transform, and the inverse is 256 times the
/// inverse transform.
namespace keelson::kokkos {

inline constexpr int fft_points = 16, fft_columns = fft_points / 2, fft_slots = fft_points * fft_columns;

/// The factor that makes the inverse of a product of two spectra a correlation.
inline constexpr float fft_scale = 1.0f / (2 * 2 * fft_points * fft_points);

/// Whether a slot has two real numbers.
KOKKOS_FORCEINLINE_FUNCTION constexpr bool is_real_pair(int slot) { return slot == 0 || slot == fft_slots / 2; }

/// Where fft16() leaves frequency k.
KOKKOS_FORCEINLINE_FUNCTION constexpr int fft_place(int k) { return 4 * (k % 4) + k / 4; }

/// cos of pi k / 8, for k from 0 to 4.
KOKKOS_FORCEINLINE_FUNCTION constexpr float cos_of_eighths(int k) {
  return k == 0   ? 1.0f
         : k == 1 ? 0.923879532511286756f
         : k == 2 ? 0.707106781186547524f
         : k == 3 ? 0.382683432365089772f
                  : 0.0f;
}
/// cos and sin of 2 pi j / 16, for j from 0 to 9.
KOKKOS_FORCEINLINE_FUNCTION constexpr float fft_cos(int j) {
  return j <= 4 ? cos_of_eighths(j) : j <= 8 ? -cos_of_eighths(8 - j) : -cos_of_eighths(j - 8);
}
KOKKOS_FORCEINLINE_FUNCTION constexpr float fft_sin(int j) {
  return j <= 4 ? cos_of_eighths(4 - j) : j <= 8 ? cos_of_eighths(j - 4) : -cos_of_eighths(12 - j);
}

/// A transform of 4 numbers: X1 = (x0 - x2) - i (x1 - x3).
template <class V>
KOKKOS_FORCEINLINE_FUNCTION void fft4(V* re, V* im, int first, int step) {
  V &r0 = re[first], &r1 = re[first + step], &r2 = re[first + 2 * step], &r3 = re[first + 3 * step];
  V &i0 = im[first], &i1 = im[first + step], &i2 = im[first + 2 * step], &i3 = im[first + 3 * step];
  const V ar = r0 + r2, ai = i0 + i2, br = r0 - r2, bi = i0 - i2;
  const V cr = r1 + r3, ci = i1 + i3, dr = r1 - r3, di = i1 - i3;
  r0 = ar + cr, i0 = ai + ci;
  r2 = ar - cr, i2 = ai - ci;
  r1 = br + di, i1 = bi - dr;
  r3 = br - di, i3 = bi + dr;
}

/// The transform of 16 complex numbers in place; frequency k is at fft_place(k). With re and im exchanged: 16 times the
/// inverse transform.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION void fft16(V* re, V* im) {
  KEELSON_UNROLL
  for (int n = 0; n < 4; ++n) fft4(re, im, n, 4);
  KEELSON_UNROLL
  for (int k = 1; k < 4; ++k) {
    KEELSON_UNROLL
    for (int n = 1; n < 4; ++n) {
      V &r = re[4 * k + n], &i = im[4 * k + n];
      const V turned = fft_cos(n * k) * r + fft_sin(n * k) * i;
      i = fft_cos(n * k) * i - fft_sin(n * k) * r;
      r = turned;
    }
  }
  KEELSON_UNROLL
  for (int k = 0; k < 4; ++k) fft4(re, im, 4 * k, 1);
}

/// A tile whose rows are transformed: (row, frequency along W). Column 0 has the real numbers at frequency 0 in `re`,
/// and those at frequency 8 in `im`. Column 0 has half the scale of the others.
template <class V>
struct FftRows {
  V re[fft_slots], im[fft_slots];
};

/// Transforms the rows of a tile, two at a time as the real and the imaginary part. load_row(h, x) writes row h;
/// rows from `rows` on are zero.
template <class V, class LoadRow>
KOKKOS_FORCEINLINE_FUNCTION void transform_rows(FftRows<V>& t, int rows, const LoadRow& load_row) {
  for (int h = 0; h < fft_points; h += 2) {
    V *const r0 = t.re + h * fft_columns, *const i0 = t.im + h * fft_columns;
    V *const r1 = r0 + fft_columns, *const i1 = i0 + fft_columns;
    if (h >= rows) {
      for (int k = 0; k < fft_columns; ++k) r0[k] = i0[k] = r1[k] = i1[k] = V{};
      continue;
    }
    V re[fft_points], im[fft_points];
    load_row(h, re);
    if (h + 1 < rows)
      load_row(h + 1, im);
    else
      for (V& v : im) v = V{};
    fft16(re, im);
    r0[0] = re[0], r1[0] = im[0];
    i0[0] = re[fft_place(8)], i1[0] = im[fft_place(8)];
    KEELSON_UNROLL
    for (int k = 1; k < fft_columns; ++k) {
      const V ar = re[fft_place(k)], ai = im[fft_place(k)];
      const V br = re[fft_place(fft_points - k)], bi = im[fft_place(fft_points - k)];
      r0[k] = ar + br, i0[k] = ai - bi;
      r1[k] = ai + bi, i1[k] = br - ar;
    }
  }
}

/// Transforms the columns. emit(slot, re, im) is called for each slot of the spectrum.
template <class V, class Emit>
KOKKOS_FORCEINLINE_FUNCTION void transform_columns(const FftRows<V>& t, const Emit& emit) {
  for (int k = 0; k < fft_columns; ++k) {
    V re[fft_points], im[fft_points];
    KEELSON_UNROLL
    for (int h = 0; h < fft_points; ++h) re[h] = t.re[h * fft_columns + k], im[h] = t.im[h * fft_columns + k];
    fft16(re, im);
    if (k > 0) {
      KEELSON_UNROLL
      for (int h = 0; h < fft_points; ++h) emit(h * fft_columns + k, re[fft_place(h)], im[fft_place(h)]);
      continue;
    }
    constexpr int middle = fft_points / 2;
    emit(0, re[0] + re[0], im[0] + im[0]);
    emit(middle * fft_columns, re[fft_place(middle)] + re[fft_place(middle)],
         im[fft_place(middle)] + im[fft_place(middle)]);
    KEELSON_UNROLL
    for (int h = 1; h < middle; ++h) {
      const V ar = re[fft_place(h)], ai = im[fft_place(h)];
      const V br = re[fft_place(fft_points - h)], bi = im[fft_place(fft_points - h)];
      emit(h * fft_columns, ar + br, ai - bi);
      emit((middle + h) * fft_columns, ai + bi, br - ar);
    }
  }
}

/// The inverse of transform_columns(). take(slot, re, im) reads a slot. All columns have one scale.
template <class V, class Take>
KOKKOS_FORCEINLINE_FUNCTION void inverse_columns(FftRows<V>& t, const Take& take) {
  for (int k = 0; k < fft_columns; ++k) {
    V re[fft_points], im[fft_points];
    if (k > 0) {
      KEELSON_UNROLL
      for (int h = 0; h < fft_points; ++h) take(h * fft_columns + k, re[h], im[h]);
    } else {
      constexpr int middle = fft_points / 2;
      take(0, re[0], im[0]);
      take(middle * fft_columns, re[middle], im[middle]);
      KEELSON_UNROLL
      for (int h = 1; h < middle; ++h) {
        V ar, ai, br, bi;
        take(h * fft_columns, ar, ai);
        take((middle + h) * fft_columns, br, bi);
        re[h] = ar - bi, im[h] = ai + br;
        re[fft_points - h] = ar + bi, im[fft_points - h] = br - ai;
      }
    }
    fft16(im, re);
    KEELSON_UNROLL
    for (int h = 0; h < fft_points; ++h)
      t.re[h * fft_columns + k] = re[fft_place(h)], t.im[h * fft_columns + k] = im[fft_place(h)];
  }
}

/// The inverse of transform_rows(). store_row(h, x) is called for the rows below `rows`.
template <class V, class StoreRow>
KOKKOS_FORCEINLINE_FUNCTION void inverse_rows(const FftRows<V>& t, int rows, const StoreRow& store_row) {
  for (int h = 0; h < rows; h += 2) {
    const V *const r0 = t.re + h * fft_columns, *const i0 = t.im + h * fft_columns;
    const V *const r1 = r0 + fft_columns, *const i1 = i0 + fft_columns;
    V re[fft_points], im[fft_points];
    re[0] = r0[0], im[0] = r1[0];
    re[fft_columns] = i0[0], im[fft_columns] = i1[0];
    KEELSON_UNROLL
    for (int k = 1; k < fft_columns; ++k) {
      re[k] = r0[k] - i1[k], im[k] = i0[k] + r1[k];
      re[fft_points - k] = r0[k] + i1[k], im[fft_points - k] = r1[k] - i0[k];
    }
    fft16(im, re);
    V row[fft_points];
    KEELSON_UNROLL
    for (int w = 0; w < fft_points; ++w) row[w] = re[fft_place(w)];
    store_row(h, row);
    if (h + 1 >= rows) return;
    KEELSON_UNROLL
    for (int w = 0; w < fft_points; ++w) row[w] = im[fft_place(w)];
    store_row(h + 1, row);
  }
}

}  // namespace keelson::kokkos
