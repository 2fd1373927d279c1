#pragma once

#include "tests/oracle/array.hpp"

/// Batch normalization: the formulas of engine/ops/batch_norm.hpp, in float64.
namespace keelson::oracle {

/// Of a source (N, C, ...) whose row n counts weight[n / (N / weights)] times.
struct BatchStatistics {
  Array sums;            ///< (2 C + 1)
  Array mean, variance;  ///< (C)
};
BatchStatistics batch_statistics(const Array& src, const Array& weight);

Array batch_norm(const Array& src, const Array& mean, const Array& variance, const Array& scale, const Array& shift,
                 double epsilon);

/// Of the whole, in which mean and variance depend on src.
struct BatchNormGradients {
  Array src, scale, shift;
};
BatchNormGradients batch_norm_backward(const Array& diff_dst, const Array& src, const Array& weight, const Array& scale,
                                       double epsilon);

}  // namespace keelson::oracle
