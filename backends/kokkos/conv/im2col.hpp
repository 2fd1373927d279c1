#pragma once

#include "backends/kokkos/common/kernel.hpp"

/// Windows of a channels-last tensor as rows of a matrix (im2col), for convolutions by matrix products.
namespace keelson::kokkos {

using Triple32 = Kokkos::Array<std::int32_t, 3>;

/// The elements of `in` in the window of an element of `out`: tap t of out's element q reads in's element (q * mul + t
/// * step + offset) / div in each dim. It is zero if this is outside of `in` or not an integer.
struct Im2col {
  std::int64_t batch = 1;
  Triple32 out, in, taps;  ///< extents
  Triple32 mul, step, offset, div;

  Index rows() const { return batch * out[0] * out[1] * out[2]; }
  Index tap_count() const { return Index{taps[0]} * taps[1] * taps[2]; }
  /// Whether the matrix is equal to the tensor.
  bool trivial() const;
};

/// Writes rows [first, first + rows) of the matrix (rows, taps x channels), channels fastest. `in` points to the first
/// selected channel of a tensor with in_channels channels. Values have `bytes` bytes; at most 2^31 values are written.
void im2col(const Im2col& w, const void* in, Index in_channels, Index channels, std::size_t bytes, Index first,
            Index rows, void* matrix);

/// The reverse (col2im): dst[q][c] = sum over taps t of matrix[row][t * channels + c], where `row` is the element of
/// `in` that tap t of out's element q reads. `matrix` (batch x in, row_step) is f32; dst (batch x out, channels) is of
/// type `type`. The order of the sums is that of the taps.
void sum_taps(const Im2col& w, const float* matrix, Index row_step, Index channels, void* dst, DType type);

/// Copies (groups x filters, taps, channels) to (groups, taps, filters, channels).
void permute_weights(const void* weights, Index groups, Index filters, Index taps, Index channels, std::size_t bytes,
                     void* dst);

}  // namespace keelson::kokkos
