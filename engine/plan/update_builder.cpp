#include "engine/plan/update_builder.hpp"

#include <algorithm>
#include <iterator>

#include "engine/base/align.hpp"
#include "engine/graph/outer_layers.hpp"
#include "engine/ops/combine.hpp"

namespace keelson {

void set_own_shapes(Parameters& parameters, const UpdateRule& rule) {
  const std::size_t states = rule.state_names().size();
  for (Parameter& p : parameters.all()) {
    std::map<int, Shape> own;
    for (std::size_t i = 0; i < states && p.kind == ParameterKind::trained; ++i)
      if (const auto shape = rule.own_state_shape(i, p.shape, p.product_inputs))
        own.emplace(static_cast<int>(i), *shape);
    parameters.set_own_shapes(p, std::move(own));
  }
}

UpdateBuilder::UpdateBuilder(CompileState& build, const Graph& graph, const Gradients& gradients,
                             const UpdateRule& rule)
    : build_(build),
      shards_(gradients.shards() ? &*gradients.shards() : nullptr),
      sums_over_ranks_(shards_ != nullptr),
      rule_(rule),
      state_names_(rule.state_names()) {
  set_own_shapes(build.parameters, rule);
  if (rule.needs_whole_parameters()) require_whole();
  const auto outer = matrices_of_outer_layers(graph);
  const auto add = [&](const std::string& name, BufferId value, BufferId gradient, BufferId rows, std::int64_t count) {
    parameters_.push_back({name, build_.parameters.at(name).shape, value, gradient, rows, count, outer.contains(name)});
  };
  const auto value_of = [&](const std::string& name) { return build_.parameter_buffers.at(name); };
  if (shards_) {
    for (const ParameterSlice& s : shards_->slices()) add(s.parameter, s.value, s.gradient, no_buffer, 0);
    return;
  }
  for (const auto& [name, gradient] : build_.gradients) {
    const BufferId value = value_of(name);
    add(name, value, build_.lag ? new_moment(name, desc(value), "lagged_gradient", state_names_.size()) : gradient,
        no_buffer, 0);
    if (build_.lag) gradient_parts_.push_back(parameters_.back().gradient);  // lagged gradients are not in the block
  }
  for (const SparseGradient& g : build_.sparse_gradients)
    add(g.parameter, value_of(g.parameter), g.values, g.rows, g.count);
  if (!build_.lag && gradients.floats() > 0)
    gradient_parts_.push_back(
        build_.program.add("gradients", TensorDesc::plain({gradients.floats()}), Storage::gradients));
  for (const SparseGradient& g : build_.sparse_gradients) gradient_parts_.push_back(g.values);
  sums_over_ranks_ = build_.ranks(other_parameters()) > 1;
}

void UpdateBuilder::require_whole() const {
  if (shards_)
    refuse(
        "shards of the optimizer (--shard-optimizer) with an optimizer that reads whole parameters: leave "
        "--shard-optimizer out, or take another optimizer, e.g. adamw");
  for (const Parameter& p : build_.parameters.all())
    if (p.part && p.part->count > 0 && p.is_elsewhere())
      refuse(
          "{}: ranks share this parameter (--channel-parallel, --spatial), but the optimizer reads whole parameters: "
          "leave --channel-parallel out (or --spatial, if its deep layers are in parts), or take another optimizer, "
          "e.g. adamw",
          p.name);
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
  if (sums_over_ranks_) {
    const std::int64_t count = all_parameters();
    const BufferId own = new_sums("global norm of this rank", count);
    for (const UpdatedParameter& p : parameters_)
      if (counts(p)) append_sum_of_squares(p.name, p.gradient, own, number_of(p));
    global_norm_ = new_sums("global norm", count);
    sum_over_ranks(own, global_norm_, "global norm");
    return global_norm_;
  }
  global_norm_ = new_sums("global norm", std::ssize(gradient_parts_));
  for (std::int64_t i = 0; i < std::ssize(gradient_parts_); ++i)
    append_sum_of_squares("all gradients", gradient_parts_[static_cast<std::size_t>(i)], global_norm_, i);
  return global_norm_;
}

/// Number of the parameter among those of the network: the same on all ranks.
std::int64_t UpdateBuilder::number_of(const UpdatedParameter& p) const {
  const auto& all = build_.parameters.all();
  return std::ranges::find(all, p.name, &Parameter::name) - all.begin();
}

std::int64_t UpdateBuilder::all_parameters() const { return std::ssize(build_.parameters.all()); }

/// Whether this rank's sums of squares of the parameter are terms of the sums over ranks. Of a parameter that all ranks
/// that share channels have as a whole, the first one's are.
bool UpdateBuilder::counts(const UpdatedParameter& p) const {
  return shards_ || build_.parameters.at(p.name).part || build_.grid->coordinate(build_.channel_axis) == 0;
}

/// `own`: sums of this rank's slices or parts, which stay zero for parameters that this rank does not count.
void UpdateBuilder::sum_over_ranks(BufferId own, BufferId all, const std::string& what) {
  if (build_.order == SumOrder::tree)
    refuse(
        "reproducible sums (--reproducible) with shards of the optimizer (--shard-optimizer): the {} is a sum over "
        "shards, which depend on the number of ranks. Take an optimizer without norms, or leave one of the two out",
        what);
  call<ops::Reorder, ops::Reorder::Forward>(what, "copy", make(ops::ReorderDesc{desc(own), desc(all)}),
                                            {.src = own, .dst = all});
  const Call start = start_of(build_, {Phase::update, what, ""},
                              {.axes = shards_ ? Distribution::batch : other_parameters(), .dst = all, .label = what});
  build_.program.calls().push_back(start);
  build_.program.calls().push_back(end_of(start));
}

void UpdateBuilder::put_updates_aside() {
  auto& calls = build_.program.calls();
  const auto changes_parameter = [&](const Operand& o) {
    return o.writes() && build_.program.buffer(build_.program.root(o.id)).storage == Storage::parameter;
  };
  if (std::ranges::none_of(calls.back().operands, changes_parameter)) return;
  updates_.push_back(std::move(calls.back()));
  calls.pop_back();
}

void UpdateBuilder::add_norms() {
  if (norms_ != no_buffer) return;
  const std::int64_t count = norms_per_parameter * all_parameters();
  own_norms_ = new_sums("norms of this rank", count);
  norms_ = new_sums("norms", count);
}

void UpdateBuilder::finish() {
  // Another rank may need norms although this rank's slices or layers need none, so all ranks take part in the sum.
  if ((shards_ || build_.ranks(Distribution::Axis::stage) > 1) && build_.order != SumOrder::tree) add_norms();
  if (norms_ != no_buffer) sum_over_ranks(own_norms_, norms_, "norms of parameters");
  std::ranges::move(updates_, std::back_inserter(build_.program.calls()));
  updates_.clear();
}

void UpdateBuilder::check_gradients() {
  ops::CheckGradientsDesc d;
  d.dynamic = build_.precision == Precision::fp16;
  call<ops::CheckGradients, ops::CheckGradients::Forward>("all gradients", "check", make(d),
                                                          {.sums = global_norm(), .loss_scale = build_.loss_scale});
}

BufferId UpdateBuilder::sums_of_squares(const UpdatedParameter& p, const std::vector<BufferId>& values) {
  KEELSON_EXPECT(std::ssize(values) <= norms_per_parameter);
  if (sums_over_ranks_) add_norms();
  const std::int64_t first = sums_over_ranks_ ? norms_per_parameter * number_of(p) : 0;
  const BufferId sums = sums_over_ranks_ ? own_norms_ : new_sums(p.name + "/norms", std::ssize(values));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!sums_over_ranks_ || counts(p))
      append_sum_of_squares(p.name, values[i], sums, first + static_cast<std::int64_t>(i));
  if (!sums_over_ranks_) return sums;
  return build_.program.view(norms_, TensorDesc::plain({std::ssize(values)}, DType::f64),
                             static_cast<std::size_t>(first) * sizeof(double));
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
  const auto number = static_cast<std::size_t>(found - state_names_.begin());
  const auto own = rule_.own_state_shape(number, p.shape, build_.parameters.at(p.name).product_inputs);
  if (!own || own->elements() > 0)
    at->second = new_moment(p.name, own ? TensorDesc::plain(*own) : desc(p.value), name, number);
  return at->second;
}

BufferId UpdateBuilder::new_moment(const std::string& parameter, const TensorDesc& desc, const std::string& name,
                                   std::size_t number) {
  return moment_buffer(build_, parameter, desc, name, number);
}

BufferId UpdateBuilder::in_layout(BufferId b, const Layout& layout, const std::string& node) {
  const TensorDesc from = desc(b), to = from.with(layout);
  if (from == to) return b;
  const BufferId copy = new_buffer(build_.program.buffer(b).name, to);
  call<ops::Reorder, ops::Reorder::Forward>(node, "reorder", make(ops::ReorderDesc{from, to}), {.src = b, .dst = copy});
  return copy;
}

void UpdateBuilder::sum_parts(const std::vector<BufferId>& arrays, const std::string& what, const Every& every) {
  if (ranks() == 1) return;
  std::size_t bytes = 0;
  for (const BufferId a : arrays) bytes += align64(desc(a).bytes());
  const BufferId all = new_buffer(what, TensorDesc::plain({static_cast<std::int64_t>(bytes / sizeof(float))}));
  std::size_t place = 0;
  for (const BufferId a : arrays) {
    KEELSON_EXPECT(build_.program.place_inside(a, all, place));
    place += align64(desc(a).bytes());
  }
  Call start = start_of(build_, {Phase::update, what, ""}, {.dst = all, .label = what});
  start.every = every;
  build_.program.calls().push_back(start);
  build_.program.calls().push_back(end_of(start));
}

BufferId UpdateBuilder::new_buffer(const UpdatedParameter& p, const std::string& name) {
  return new_buffer(p, name, desc(p.value));
}

BufferId UpdateBuilder::new_buffer(const UpdatedParameter& p, const std::string& name, const TensorDesc& desc) {
  return build_.program.add(p.name + "/" + name, desc);
}

}  // namespace keelson
