#include "engine/ops/dense.hpp"

namespace keelson::ops {

double dense_flops(const DenseDesc& d) {
  return 2.0 * static_cast<double>(d.src.shape[0]) * static_cast<double>(d.weights.shape.elements());
}

}  // namespace keelson::ops
