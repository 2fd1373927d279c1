#pragma once

#include <vector>

#include "engine/ops/shampoo.hpp"
#include "tests/oracle/array.hpp"

/// Shampoo once more (shampoo.cpp): f64, serial, from the formulas in engine/ops/shampoo.hpp and
/// engine/optim/shampoo.hpp.
namespace keelson::oracle {

/// (matrix + epsilon I)^(-1 / root) of a symmetric matrix (n, n), by Jacobi's rotations. Eigenvalues below `floor`
/// times the largest one count as that.
Array inverse_root(const Array& matrix, double epsilon, int root, double floor = 0x1p-24);

/// g g^T, where g is the array as a matrix with a row for each index of the dimension.
Array gram(const Array& g, int dim);

/// The array multiplied along a dimension by a matrix.
Array multiply_along(const Array& a, const Array& matrix, int dim);

struct ShampooSettings {
  double beta1 = 0, beta2 = 1, epsilon = 1e-4, momentum = 0, decay = 0;
  ops::Graft grafting = ops::Graft::none;
  double grafting_epsilon = 1e-8;
  std::uint64_t period = 1, start = 0, delay = 0;
};
/// Of one parameter without blocks; arrays of zeros at first.
struct ShampooState {
  explicit ShampooState(const Array& parameter);
  Array param, exp_avg, exp_avg_sq, momentum;
  std::vector<Array> factors, roots, delayed;  ///< by dimension; delayed: the root that is next
};
/// Step number `step`, from 0.
void shampoo(ShampooState& s, const Array& g, const ShampooSettings& o, std::uint64_t step, double lr);

}  // namespace keelson::oracle
