#include "engine/ops/matmul.hpp"

namespace keelson::ops {

double matmul_flops(const MatMulDesc& d) {
  return 2.0 * static_cast<double>(d.src.shape.elements()) * static_cast<double>(d.weights.shape[1]);
}

}  // namespace keelson::ops
