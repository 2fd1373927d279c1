#include "engine/plan/update_builder.hpp"

#include <algorithm>

namespace keelson {

UpdateBuilder::UpdateBuilder(CompileState& build, std::int64_t gradients, std::vector<std::string> state_names)
    : build_(build), gradients_(gradients), state_names_(std::move(state_names)) {
  const auto add = [&](const std::string& name, BufferId gradient, BufferId rows, std::int64_t count) {
    parameters_.push_back(
        {name, build_.parameters.at(name).shape, build_.parameter_buffers.at(name), gradient, rows, count});
  };
  for (const auto& [name, gradient] : build_.gradients)
    add(name, build_.lag ? new_moment(name, "lagged_gradient", state_names_.size()) : gradient, no_buffer, 0);
  for (const SparseGradient& g : build_.sparse_gradients) add(g.parameter, g.values, g.rows, g.count);
}

BufferId UpdateBuilder::new_sums(const std::string& name, std::int64_t count) {
  return build_.program.add(name, TensorDesc::plain({count}, DType::f64), Storage::owned);
}

void UpdateBuilder::append_sum_of_squares(const std::string& node, BufferId src, BufferId sums, std::int64_t index) {
  call<ops::SumSquares, ops::SumSquares::Forward>(node, "sum of squares", make(ops::SumSquaresDesc{desc(src), index}),
                                                  {.src = src, .sums = sums});
}

BufferId UpdateBuilder::global_norm() {
  if (global_norm_ != no_buffer) return global_norm_;
  if (build_.lag) {  // lagged gradients are not in the block
    global_norm_ = new_sums("global norm", std::ssize(parameters_));
    for (std::int64_t i = 0; i < std::ssize(parameters_); ++i) {
      const auto& p = parameters_[static_cast<std::size_t>(i)];
      append_sum_of_squares(p.name, p.gradient, global_norm_, i);
    }
    return global_norm_;
  }
  const int whole = gradients_ > 0 ? 1 : 0, by_rows = static_cast<int>(build_.sparse_gradients.size());
  global_norm_ = new_sums("global norm", whole + by_rows);
  if (gradients_ > 0)
    append_sum_of_squares("all gradients",
                          build_.program.add("gradients", TensorDesc::plain({gradients_}), Storage::gradients),
                          global_norm_, 0);
  for (int i = 0; i < by_rows; ++i)
    append_sum_of_squares(build_.sparse_gradients[i].parameter, build_.sparse_gradients[i].values, global_norm_,
                          whole + i);
  return global_norm_;
}

void UpdateBuilder::check_gradients() {
  ops::CheckGradientsDesc d;
  d.dynamic = build_.precision == Precision::fp16;
  call<ops::CheckGradients, ops::CheckGradients::Forward>("all gradients", "check", make(d),
                                                          {.sums = global_norm(), .loss_scale = build_.loss_scale});
}

BufferId UpdateBuilder::sums_of_squares(const UpdatedParameter& p, const std::vector<BufferId>& values) {
  const BufferId sums = new_sums(p.name + "/norms", std::ssize(values));
  for (std::size_t i = 0; i < values.size(); ++i)
    append_sum_of_squares(p.name, values[i], sums, static_cast<std::int64_t>(i));
  return sums;
}

void UpdateBuilder::update(const UpdatedParameter& p, const ops::UpdateParams& params, BufferId global_norm,
                           BufferId norms) {
  BufferId states[2] = {no_buffer, no_buffer};
  KEELSON_EXPECT(state_names_.size() <= std::size(states));
  for (std::size_t i = 0; i < state_names_.size(); ++i) states[i] = state(p, state_names_[i]);
  call<ops::Update, ops::Update::Forward>(p.name, p.row_count > 0 ? "update of rows" : "update",
                                          make(ops::UpdateDesc{params, desc(p.value), p.row_count}),
                                          {.step_params = build_.step_params,
                                           .diff = p.gradient,
                                           .rows = p.rows,
                                           .global_norm = global_norm,
                                           .norms = norms,
                                           .param = p.value,
                                           .moment1 = states[0],
                                           .moment2 = states[1],
                                           .loss_scale = build_.loss_scale});
}

BufferId UpdateBuilder::state(const UpdatedParameter& p, const std::string& name) {
  const auto found = std::find(state_names_.begin(), state_names_.end(), name);
  if (found == state_names_.end())
    fail("the optimizer asks for the state '{}' of {}, which its state_names() do not have: add the name there", name,
         p.name);
  const auto [at, is_new] = states_.try_emplace({p.name, name}, no_buffer);
  if (!is_new) return at->second;
  at->second = new_moment(p.name, name, static_cast<std::size_t>(found - state_names_.begin()));
  return at->second;
}

BufferId UpdateBuilder::new_moment(const std::string& parameter, const std::string& name, std::size_t number) {
  const BufferId id =
      build_.program.add(parameter + "/" + name, desc(build_.parameter_buffers.at(parameter)), Storage::moment);
  Buffer& buffer = build_.program.buffer(id);
  buffer.parameter = parameter;
  buffer.moment = number;
  return id;
}

BufferId UpdateBuilder::new_buffer(const UpdatedParameter& p, const std::string& name) {
  return build_.program.add(p.name + "/" + name, desc(p.value));
}

}  // namespace keelson
