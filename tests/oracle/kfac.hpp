#pragma once

#include "engine/ops/conv.hpp"
#include "tests/oracle/array.hpp"

/// K-FAC once more: f64, serial, from the formulas in engine/ops/kfac.hpp and engine/optim/kfac.hpp.
namespace keelson::oracle {

/// Windows of a tensor (rows, features), for an empty kernel, or (N, C, spatial...), as rows: (rows, taps x channels),
/// channels fastest; with a 1 at the end if `ones`.
Array patch_rows(const Array& src, const ops::ConvParams& window, bool ones);

/// rows^T rows, (columns, columns).
Array products_of_rows(const Array& rows);

/// The diagonal blocks of a matrix, (count, size, size), with zeros at the end of a smaller last one. Their number is
/// the smallest for which none has more than `most` rows (0: any number), and all but the last one have as few rows as
/// that number allows.
Array diagonal_blocks(const Array& m, std::int64_t most);
/// The matrix with zeros outside these blocks.
Array block_diagonal(const Array& m, std::int64_t most);

/// x with m x = b, by Gauss' method; b and x may have several columns.
Array solve(const Array& m, const Array& b);

Array matrix_product(const Array& a, const Array& b);
Array transposed(const Array& a);

/// (G + sqrt(damping) / pi I)^-1 gradient (A + pi sqrt(damping) I)^-1.
Array factored_direction(const Array& gradient, const Array& a, const Array& g, double damping);

/// The direction by eigenvectors, X with G X A + damping X = gradient: as one system of all elements.
Array exact_direction(const Array& gradient, const Array& a, const Array& g, double damping);

/// A plain (O, C, kernel...) array, or (out, in), and the bias (empty: none) as a matrix in the order of patch_rows().
Array weights_and_bias_as_matrix(const Array& weights, const Array& bias);
/// The reverse.
void split_matrix(const Array& matrix, Array& weights, Array& bias);

}  // namespace keelson::oracle
