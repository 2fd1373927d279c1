#include "engine/optim/lamb.hpp"

#include <cmath>

#include "engine/plan/update_builder.hpp"

namespace keelson {

ops::LambParams Lamb::params_for(const std::string& parameter, const Shape& shape) const {
  const float decay = group_of(parameter, adapt_vectors || shape.rank() > 1).weight_decay;
  ops::LambParams p;
  p.beta1 = beta1;
  p.beta2 = beta2;
  p.epsilon = epsilon;
  (l2 ? p.weight_decay : p.decoupled_decay) = decay;
  p.average_gradients = average_gradients;
  p.clip_norm = clip_norm;
  return p;
}

void Lamb::append_updates(UpdateBuilder& b) const {
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  for (const UpdatedParameter& p : b.parameters()) {
    const ops::LambParams params = params_for(p.name, p.shape);
    const BufferId direction = b.new_buffer(p, "direction");
    b.call<ops::LambDirection, ops::LambDirection::Forward>(p.name, "direction",
                                                            b.make(ops::LambDirectionDesc{params, b.desc(p.value)}),
                                                            {.step_params = b.step_params(),
                                                             .diff = p.gradient,
                                                             .global_norm = global_norm,
                                                             .param = p.value,
                                                             .exp_avg = b.state(p, "exp_avg"),
                                                             .exp_avg_sq = b.state(p, "exp_avg_sq"),
                                                             .direction = direction,
                                                             .loss_scale = b.loss_scale()});
    const bool scaled = nvlamb || params.decoupled_decay != 0 || params.weight_decay != 0;
    const BufferId norms = scaled ? b.sums_of_squares(p, {p.value, direction}) : no_buffer;
    b.call<ops::LambStep, ops::LambStep::Forward>(
        p.name, "update",
        b.make(ops::LambStepDesc{b.desc(p.value), group_of(p.name).lr_multiplier, norm_min, norm_max}),
        {.step_params = b.step_params(),
         .direction = direction,
         .norms = norms,
         .param = p.value,
         .loss_scale = b.loss_scale()});
  }
}

std::vector<OptimizerSetting> Lamb::own_settings() {
  return {{"beta1", &beta1},
          {"beta2", &beta2},
          {"epsilon", &epsilon},
          {"average_gradients", &average_gradients},
          {"l2", &l2},
          {"nvlamb", &nvlamb},
          {"adapt_vectors", &adapt_vectors},
          {"norm_min", &norm_min},
          {"norm_max", &norm_max}};
}

std::string Lamb::to_string() const {
  std::string text = fmt::format("lamb betas {} {} epsilon {}", beta1, beta2, epsilon);
  if (nvlamb) text += ", nvlamb";
  if (!average_gradients) text += ", gradients not averaged";
  if (l2) text += ", L2";
  if (adapt_vectors) text += ", vectors too";
  if (norm_min > 0 || std::isfinite(norm_max)) text += fmt::format(", norms from {} to {}", norm_min, norm_max);
  return text + shared_settings();
}

}  // namespace keelson
