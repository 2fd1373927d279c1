#include "engine/optim/adam.hpp"

#include <utility>

#include "engine/plan/update_builder.hpp"

namespace keelson {

ops::UpdateParams Adam::update_for(const std::string& parameter) const {
  const ParameterGroup group = group_of(parameter);
  ops::UpdateParams p;
  p.kind = ops::UpdateKind::adam;
  p.weight_decay = group.weight_decay;
  p.lr_multiplier = group.lr_multiplier;
  p.beta1 = beta1;
  p.beta2 = beta2;
  p.epsilon = epsilon;
  p.clip_norm = clip_norm;
  larc.apply_to(p);
  return p;
}

ops::UpdateParams AdamW::update_for(const std::string& parameter) const {
  ops::UpdateParams p = Adam::update_for(parameter);
  p.decoupled_decay = std::exchange(p.weight_decay, 0.0f);
  return p;
}

void Adam::append_updates(UpdateBuilder& b) const {
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  for (const UpdatedParameter& p : b.parameters()) {
    const BufferId norms = larc.needs_norms() ? b.sums_of_squares(p, {p.value, p.gradient}) : no_buffer;
    b.update(p, update_for(p.name), global_norm, norms);
  }
}

std::string Adam::describe(const char* name) const {
  return fmt::format("{} betas {} {} epsilon {}", name, beta1, beta2, epsilon) + shared_settings() + larc.to_string();
}

}  // namespace keelson
