#include "engine/optim/sgd.hpp"

namespace keelson {

ops::UpdateParams Sgd::update_for(const std::string& parameter, const Shape&) const {
  ops::UpdateParams p = update_of_kind(ops::UpdateKind::sgd, parameter);
  p.momentum = momentum;
  p.nesterov = nesterov;
  larc.apply_to(p);
  return p;
}

std::vector<std::string> Sgd::state_names() const {
  return momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>();
}

bool Sgd::moves_only_rows_with_gradient() const { return momentum == 0 && !decays() && !larc.needs_norms(); }

std::vector<OptimizerSetting> Sgd::own_settings() {
  std::vector<OptimizerSetting> own{{"momentum", &momentum}, {"nesterov", &nesterov}};
  for (const OptimizerSetting& s : larc.settings()) own.push_back(s);
  return own;
}

std::string Sgd::to_string() const {
  std::string text = "sgd";
  if (momentum != 0) text += fmt::format("{} momentum {}", nesterov ? " nesterov" : "", momentum);
  return text + shared_settings() + larc.to_string();
}

}  // namespace keelson
