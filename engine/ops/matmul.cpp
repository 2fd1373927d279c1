#include "engine/ops/matmul.hpp"

namespace keelson::ops {

double matmul_flops(const MatMulDesc& d) {
  return 2.0 * static_cast<double>(d.src.shape.elements()) * static_cast<double>(d.weights.shape[1]);
}

void MatMulDesc::take_layouts(const MatMul& product) {
  src.layout = product.layout(Verb::forward, Role::src);
  weights.layout = product.layout(Verb::forward, Role::weights);
  dst.layout = product.layout(Verb::forward, Role::dst);
}

}  // namespace keelson::ops
