#include "engine/optim/sgd.hpp"

#include "engine/plan/update_builder.hpp"

namespace keelson {

ops::UpdateParams Sgd::update_for(const std::string& parameter) const {
  const ParameterGroup group = group_of(parameter);
  ops::UpdateParams p;
  p.kind = ops::UpdateKind::sgd;
  p.weight_decay = group.weight_decay;
  p.lr_multiplier = group.lr_multiplier;
  p.momentum = momentum;
  p.nesterov = nesterov;
  p.clip_norm = clip_norm;
  larc.apply_to(p);
  return p;
}

std::vector<std::string> Sgd::state_names() const {
  return momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>();
}

bool Sgd::moves_only_rows_with_gradient() const { return momentum == 0 && !decays() && !larc.needs_norms(); }

void Sgd::append_updates(UpdateBuilder& b) const {
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  for (const UpdatedParameter& p : b.parameters()) {
    const BufferId norms = larc.needs_norms() ? b.sums_of_squares(p, {p.value, p.gradient}) : no_buffer;
    b.update(p, update_for(p.name), global_norm, norms);
  }
}

std::string Sgd::to_string() const {
  std::string text = "sgd";
  if (momentum != 0) text += fmt::format("{} momentum {}", nesterov ? " nesterov" : "", momentum);
  return text + shared_settings() + larc.to_string();
}

}  // namespace keelson
