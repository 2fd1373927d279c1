#include "engine/optim/schedule_free.hpp"

#include <utility>

namespace keelson {

ops::UpdateParams AdamWScheduleFree::update_for(const std::string& parameter, const Shape&) const {
  if (!(beta1 >= 0 && beta1 < 1))
    refuse("the setting beta1 of AdamWScheduleFree is {}: expected a number from 0 to below 1, e.g. 0.9", beta1);
  ops::UpdateParams p = update_of_kind(ops::UpdateKind::schedule_free, parameter);
  p.beta1 = beta1;
  p.beta2 = beta2;
  p.epsilon = epsilon;
  p.decoupled_decay = std::exchange(p.weight_decay, 0.0f);
  return p;
}

std::string AdamWScheduleFree::to_string() const {
  return fmt::format("adamwschedulefree betas {} {} epsilon {}", beta1, beta2, epsilon) + shared_settings();
}

}  // namespace keelson
