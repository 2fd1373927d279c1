#include "engine/optim/adam.hpp"

#include <utility>

namespace keelson {

ops::UpdateParams Adam::update_for(const std::string& parameter, const Shape&) const {
  ops::UpdateParams p = update_of_kind(ops::UpdateKind::adam, parameter);
  p.beta1 = beta1;
  p.beta2 = beta2;
  p.epsilon = epsilon;
  larc.apply_to(p);
  return p;
}

ops::UpdateParams AdamW::update_for(const std::string& parameter, const Shape& shape) const {
  ops::UpdateParams p = Adam::update_for(parameter, shape);
  p.decoupled_decay = std::exchange(p.weight_decay, 0.0f);
  return p;
}

std::vector<OptimizerSetting> Adam::own_settings() {
  std::vector<OptimizerSetting> own{{"beta1", &beta1}, {"beta2", &beta2}, {"epsilon", &epsilon}};
  for (const OptimizerSetting& s : larc.settings()) own.push_back(s);
  return own;
}

std::string Adam::describe(const char* name) const {
  return fmt::format("{} betas {} {} epsilon {}", name, beta1, beta2, epsilon) + shared_settings() + larc.to_string();
}

}  // namespace keelson
