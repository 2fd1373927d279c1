#include "engine/optim/lars.hpp"

namespace keelson {

ops::UpdateParams Lars::update_for(const std::string& parameter, const Shape& shape) const {
  ops::UpdateParams p = update_of_kind(ops::UpdateKind::lars, parameter, adapt_vectors || shape.rank() > 1);
  p.momentum = momentum;
  p.epsilon = epsilon;
  p.lars_eta = eta;
  p.rate_in_momentum = rate_in_momentum;
  return p;
}

std::vector<std::string> Lars::state_names() const {
  return momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>();
}

std::vector<OptimizerSetting> Lars::own_settings() {
  return {{"momentum", &momentum},
          {"eta", &eta},
          {"epsilon", &epsilon},
          {"rate_in_momentum", &rate_in_momentum},
          {"adapt_vectors", &adapt_vectors}};
}

std::string Lars::to_string() const {
  std::string text = fmt::format("lars momentum {} eta {}", momentum, eta);
  if (epsilon != 0) text += fmt::format(" epsilon {}", epsilon);
  if (!rate_in_momentum) text += ", rate outside the momentum";
  if (adapt_vectors) text += ", vectors too";
  return text + shared_settings();
}

}  // namespace keelson
