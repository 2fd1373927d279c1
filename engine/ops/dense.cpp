#include "engine/ops/dense.hpp"

namespace keelson::ops {

std::vector<Verb> DenseDesc::verbs() const {
  std::vector<Verb> all{Verb::forward};
  if (training && diff_src) all.push_back(Verb::backward_data);
  if (training) all.push_back(Verb::backward_weights);
  return all;
}

void DenseDesc::take_layouts(const Dense& dense) {
  src.layout = dense.layout(Verb::forward, Role::src);
  dst.layout = dense.layout(Verb::forward, Role::dst);
  if (!weights.layout.is_any()) return;
  if (const auto l = dense.layout(Verb::forward, Role::weights); l.is_strided()) weights.layout = l;
}

double dense_flops(const DenseDesc& d) {
  return 2.0 * static_cast<double>(d.src.shape[0]) * static_cast<double>(d.weights.shape.elements());
}

}  // namespace keelson::ops
