#include "engine/ops/conv_max_pool.hpp"

#include <random>

namespace keelson::ops {

void ConvMaxPoolDesc::fill_workspace(void* indices) const {
  auto* const places = static_cast<std::uint8_t*>(indices);
  const auto count = static_cast<std::uint32_t>(pool.kernel.elements());
  std::minstd_rand chance;
  for (std::int64_t i = 0; i < dst.elements(); ++i) places[i] = static_cast<std::uint8_t>((chance() >> 8) % count);
}

std::vector<Verb> ConvMaxPoolDesc::verbs() const {
  std::vector<Verb> all{Verb::backward_weights};
  if (diff_src) all.push_back(Verb::backward_data);
  return all;
}

void ConvMaxPoolDesc::take_layouts(const ConvMaxPoolBackward& gradient) {
  src.layout = gradient.layout(Verb::backward_weights, Role::src);
  weights.layout = gradient.layout(Verb::backward_weights, Role::weights);
  dst.layout = gradient.layout(Verb::backward_weights, Role::dst);
}

}  // namespace keelson::ops
