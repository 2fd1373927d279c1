#include "engine/optim/lion.hpp"

#include <utility>

namespace keelson {

ops::UpdateParams Lion::update_for(const std::string& parameter, const Shape&) const {
  ops::UpdateParams p = update_of_kind(ops::UpdateKind::lion, parameter);
  p.beta1 = beta1;
  p.beta2 = beta2;
  p.decoupled_decay = std::exchange(p.weight_decay, 0.0f);
  return p;
}

std::string Lion::to_string() const { return fmt::format("lion betas {} {}", beta1, beta2) + shared_settings(); }

}  // namespace keelson
