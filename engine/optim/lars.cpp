#include "engine/optim/lars.hpp"

#include "engine/plan/update_builder.hpp"

namespace keelson {

ops::UpdateParams Lars::update_for(const std::string& parameter, const Shape& shape) const {
  const ParameterGroup group = group_of(parameter, adapt_vectors || shape.rank() > 1);
  ops::UpdateParams p;
  p.kind = ops::UpdateKind::lars;
  p.weight_decay = group.weight_decay;
  p.lr_multiplier = group.lr_multiplier;
  p.momentum = momentum;
  p.epsilon = epsilon;
  p.clip_norm = clip_norm;
  p.lars_eta = eta;
  p.rate_in_momentum = rate_in_momentum;
  return p;
}

std::vector<std::string> Lars::state_names() const {
  return momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>();
}

void Lars::append_updates(UpdateBuilder& b) const {
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  for (const UpdatedParameter& p : b.parameters()) {
    const bool adapts = adapt_vectors || p.shape.rank() > 1;
    const BufferId norms = adapts ? b.sums_of_squares(p, {p.value, p.gradient}) : no_buffer;
    b.update(p, update_for(p.name, p.shape), global_norm, norms);
  }
}

std::string Lars::to_string() const {
  std::string text = fmt::format("lars momentum {} eta {}", momentum, eta);
  if (epsilon != 0) text += fmt::format(" epsilon {}", epsilon);
  if (!rate_in_momentum) text += ", rate outside the momentum";
  if (adapt_vectors) text += ", vectors too";
  return text + shared_settings();
}

}  // namespace keelson
