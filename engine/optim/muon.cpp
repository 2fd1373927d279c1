#include "engine/optim/muon.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "engine/ops/combine.hpp"
#include "engine/ops/muon.hpp"
#include "engine/ops/orthogonalize.hpp"
#include "engine/plan/update_builder.hpp"

namespace keelson {

namespace {

std::int64_t columns_of(const Shape& shape) { return shape.elements() / shape[0]; }

/// A plain matrix in the memory of a parameter that has the parameter's rows and columns, in any order of the columns,
/// or is its transpose: the orthogonal matrix is then the same one, in the same order. No value: there is none.
std::optional<TensorDesc> matrix_in_memory(const TensorDesc& d) {
  const std::int64_t rows = d.shape[0], columns = columns_of(d.shape);
  if (!d.layout.is_strided()) return std::nullopt;
  const std::int64_t stride = d.layout.strides()[0];
  if (rows == 1 || stride == columns) return TensorDesc::plain({rows, columns});
  if (stride == 1) return TensorDesc::plain({columns, rows});
  return std::nullopt;
}

void append_matrix(const Muon& o, UpdateBuilder& b, const UpdatedParameter& p, BufferId global_norm) {
  const TensorDesc desc = b.desc(p.value);
  const ParameterGroup group = o.matrix_group(p.name);
  const BufferId direction = b.new_buffer(p, "direction");
  b.call<ops::MuonDirection, ops::MuonDirection::Forward>(
      p.name, "direction", b.make(ops::MuonDirectionDesc{desc, o.momentum, o.nesterov, o.clip_norm}),
      {.diff = p.gradient,
       .global_norm = global_norm,
       .momentum = b.state(p, "exp_avg"),
       .direction = direction,
       .loss_scale = b.loss_scale()});
  const auto reorder = [&](BufferId from, BufferId to) {
    b.call<ops::Reorder, ops::Reorder::Forward>(p.name, "reorder", b.make(ops::ReorderDesc{b.desc(from), b.desc(to)}),
                                                {.src = from, .dst = to});
  };
  const auto in_memory = matrix_in_memory(desc);
  const TensorDesc matrix = in_memory ? *in_memory : TensorDesc::plain({p.shape[0], columns_of(p.shape)});
  const BufferId plain = in_memory ? direction : b.new_buffer(p, "plain direction", TensorDesc::plain(p.shape));
  if (!in_memory) reorder(direction, plain);
  const BufferId as_matrix = b.view(plain, matrix);
  b.call<ops::Orthogonalize, ops::Orthogonalize::Forward>(
      p.name, "orthogonalize", b.make(ops::OrthogonalizeDesc{matrix, o.ns_a, o.ns_b, o.ns_c, o.epsilon, o.ns_steps}),
      {.src = as_matrix, .dst = as_matrix});
  if (!in_memory) reorder(plain, direction);
  b.call<ops::MuonStep, ops::MuonStep::Forward>(
      p.name, "update", b.make(ops::MuonStepDesc{desc, group.lr_multiplier, o.rate_for(p.shape), group.weight_decay}),
      {.step_params = b.step_params(), .direction = direction, .param = p.value, .loss_scale = b.loss_scale()});
}

}  // namespace

bool Muon::is_for_adamw(const std::string& parameter, const Shape& shape, bool outer) const {
  if (shape.rank() < 2) return true;
  std::istringstream patterns(adamw);
  bool any = false;
  for (std::string pattern; patterns >> pattern; any = true)
    if (matches_pattern(pattern, parameter)) return true;
  return !any && outer;
}

ops::UpdateParams Muon::adamw_for(const std::string& parameter, const Shape& shape) const {
  const ParameterGroup group = group_of(parameter, shape.rank() > 1);
  ops::UpdateParams p;
  p.kind = ops::UpdateKind::adam;
  p.beta1 = adamw_beta1;
  p.beta2 = adamw_beta2;
  p.epsilon = adamw_epsilon;
  p.decoupled_decay = group.weight_decay;
  p.lr_multiplier = group.lr_multiplier * adamw_rate;
  p.clip_norm = clip_norm;
  return p;
}

float Muon::rate_for(const Shape& shape) const {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(columns_of(shape));
  double rate = 1;
  switch (adjust_lr_fn) {
    case AdjustRate::original:
      rate = std::sqrt(std::max(1.0, rows / columns));
      break;
    case AdjustRate::match_rms_adamw:
      rate = 0.2 * std::sqrt(std::max(rows, columns));
      break;
    case AdjustRate::spectral_unclamped:
      rate = std::sqrt(rows / columns);
      break;
  }
  return static_cast<float>(rate);
}

void Muon::append_updates(UpdateBuilder& b) const {
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  for (const UpdatedParameter& p : b.parameters()) {
    if (is_for_adamw(p.name, p.shape, p.is_outer))
      b.update(p, adamw_for(p.name, p.shape), global_norm, no_buffer);
    else
      append_matrix(*this, b, p, global_norm);
  }
}

std::vector<OptimizerSetting> Muon::own_settings() {
  return {{"momentum", &momentum},
          {"nesterov", &nesterov},
          {"ns_a", &ns_a},
          {"ns_b", &ns_b},
          {"ns_c", &ns_c},
          {"ns_steps", &ns_steps},
          {"epsilon", &epsilon},
          {"adjust_lr_fn", &adjust_lr_fn},
          {"adamw", &adamw},
          {"adamw_rate", &adamw_rate},
          {"adamw_beta1", &adamw_beta1},
          {"adamw_beta2", &adamw_beta2},
          {"adamw_epsilon", &adamw_epsilon}};
}

std::string Muon::to_string() const {
  std::string text = fmt::format("muon{} momentum {}, {} steps of {} {} {} epsilon {}", nesterov ? " nesterov" : "",
                                 momentum, ns_steps, ns_a, ns_b, ns_c, epsilon);
  if (adjust_lr_fn != AdjustRate::original)
    text += fmt::format(", rate {}", adjust_rate_words[static_cast<int>(adjust_lr_fn)]);
  text += fmt::format(", adamw {}lr x {} betas {} {} epsilon {}", adamw.empty() ? "" : "of " + adamw + " ", adamw_rate,
                      adamw_beta1, adamw_beta2, adamw_epsilon);
  return text + shared_settings();
}

}  // namespace keelson
