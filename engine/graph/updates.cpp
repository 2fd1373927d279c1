#include "engine/graph/updates.hpp"

namespace keelson {

namespace {

void append_sum_squares(Program& program, Context& context, const std::string& node, BufferId src, BufferId sums,
                        int index) {
  std::shared_ptr<ops::SumSquares> sum = context.make(ops::SumSquaresDesc{program.buffer(src).desc, index});
  append_call<ops::SumSquares, ops::SumSquares::Forward>(program, {Phase::update, node, "sum of squares"}, sum,
                                                         {.src = src, .sums = sums});
}

void append_check(CompileState& build, BufferId squares) {
  ops::CheckGradientsDesc d;
  d.dynamic = build.precision == Precision::fp16;
  std::shared_ptr<ops::CheckGradients> check = build.parameters.context().make(d);
  append_call<ops::CheckGradients, ops::CheckGradients::Forward>(build.program,
                                                                 {Phase::update, "all gradients", "check"}, check,
                                                                 {.sums = squares, .step_params = build.step_params});
}

}  // namespace

void append_updates(CompileState& build, const Optimizer& optimizer, std::int64_t gradients) {
  Program& program = build.program;
  Context& context = build.parameters.context();
  const auto sums = [&](const std::string& name, std::int64_t count) {
    return program.add(name, TensorDesc::plain({count}, DType::f64), Storage::owned);
  };
  BufferId squares = no_buffer;
  if (optimizer.clip_norm > 0 || build.checks_gradients) {
    const int whole = gradients > 0 ? 1 : 0, by_rows = static_cast<int>(build.sparse_gradients.size());
    squares = sums("global norm", whole + by_rows);
    if (gradients > 0)
      append_sum_squares(program, context, "all gradients",
                         program.add("gradients", TensorDesc::plain({gradients}), Storage::gradients), squares, 0);
    for (int i = 0; i < by_rows; ++i)
      append_sum_squares(program, context, build.sparse_gradients[i].parameter, build.sparse_gradients[i].values,
                         squares, whole + i);
  }
  if (build.checks_gradients) append_check(build, squares);
  const BufferId global_norm = optimizer.clip_norm > 0 ? squares : no_buffer;
  const auto update = [&](const std::string& name, BufferId gradient, BufferId rows, std::int64_t count) {
    Parameter& p = build.parameters.at(name);
    const BufferId value = build.parameter_buffers.at(name);
    BufferId norms = no_buffer;
    if (optimizer.larc != ops::LarcMode::none) {
      norms = sums(name + "/norms", 2);
      append_sum_squares(program, context, name, value, norms, 0);
      append_sum_squares(program, context, name, gradient, norms, 1);
    }
    BufferId moments[2] = {no_buffer, no_buffer};
    for (int m = 0; m < optimizer.moments(); ++m) {
      moments[m] = program.add(fmt::format("{}/moment{}", name, m + 1), p.value.desc(), Storage::moment);
      program.buffer(moments[m]).parameter = name;
      program.buffer(moments[m]).moment = static_cast<std::size_t>(m);
    }
    std::shared_ptr<ops::Update> op = context.make(ops::UpdateDesc{optimizer.update_for(name), p.value.desc(), count});
    append_call<ops::Update, ops::Update::Forward>(program,
                                                   {Phase::update, name, count > 0 ? "update of rows" : "update"}, op,
                                                   {.step_params = build.step_params,
                                                    .diff = gradient,
                                                    .rows = rows,
                                                    .global_norm = global_norm,
                                                    .norms = norms,
                                                    .param = value,
                                                    .moment1 = moments[0],
                                                    .moment2 = moments[1]});
  };
  for (const auto& [name, gradient] : build.gradients) update(name, gradient, no_buffer, 0);
  for (const SparseGradient& g : build.sparse_gradients) update(g.parameter, g.values, g.rows, g.count);
}

}  // namespace keelson
