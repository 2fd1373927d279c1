#include "engine/optim/shampoo.hpp"

#include <algorithm>

#include "engine/optim/detail/delayed_work.hpp"
#include "engine/optim/detail/share_out.hpp"
#include "engine/plan/update_builder.hpp"

namespace keelson {

namespace {

/// Of parameters: convolutions of volumes have five.
constexpr int most_dims = 5;

constexpr const char *factor_state = "factor_matrices", *root_state = "inv_factor_matrices",
                     *delayed_state = "delayed_factor_matrices";
std::string state_of(const char* state, int dim) { return fmt::format("{}_{}", state, dim); }

}  // namespace

/// Appends the calls of a step.
class Shampoo::Calls {
 public:
  Calls(const Shampoo& optimizer, UpdateBuilder& builder) : o(optimizer), b(builder) {}
  void append() {
    const BufferId global_norm = o.clip_norm > 0 ? b.global_norm() : no_buffer;
    std::vector<Work> all;
    for (const UpdatedParameter& p : b.parameters()) all.push_back(begin(p, global_norm));
    append_roots(all);
    for (const Work& w : all) finish(w);
  }

 private:
  /// A parameter between the calls.
  struct Work {
    const UpdatedParameter* parameter;
    KroneckerBlocks blocks;
    BufferId gradient;  ///< plain, of the shape of the blocks
    BufferId graft;     ///< in the parameter's layout
  };
  Work begin(const UpdatedParameter& p, BufferId global_norm);
  void append_roots(const std::vector<Work>& all);
  void finish(const Work& w);

  const Shampoo& o;
  UpdateBuilder& b;
};

KroneckerBlocks Shampoo::blocks_of(const Shape& parameter) const {
  Shape shape = parameter.empty() ? Shape{1} : parameter;
  if (use_merge_dims) shape = merge_small_dims(shape, max_preconditioner_dim);
  return {shape, max_preconditioner_dim};
}

/// The states that each dimension has. They are the last ones of state_names(), those of a dimension next to each
/// other.
std::vector<const char*> Shampoo::states_of_dims() const {
  std::vector<const char*> states{factor_state, root_state};
  if (precondition_delay > 0) states.push_back(delayed_state);
  return states;
}

std::vector<std::string> Shampoo::state_names() const {
  std::vector<std::string> names;
  if (beta1 > 0) names.emplace_back("exp_avg");
  if (ops::GraftParams{.method = grafting}.has_state()) names.emplace_back("exp_avg_sq");
  if (step_momentum > 0) names.emplace_back("momentum_buffer");
  for (int i = 0; i < most_dims; ++i)
    for (const char* state : states_of_dims()) names.push_back(state_of(state, i));
  return names;
}

std::optional<Shape> Shampoo::own_state_shape(std::size_t state, const Shape& parameter, std::int64_t) const {
  check_settings();  // plans ask for shapes first
  const std::size_t each = states_of_dims().size(), first = state_names().size() - most_dims * each;
  if (state < first) return std::nullopt;
  const auto dim = static_cast<int>((state - first) / each);
  const KroneckerBlocks blocks = blocks_of(parameter);
  return dim < blocks.rank() ? blocks.factors(dim) : Shape{0};
}

void Shampoo::check_settings() const {
  const auto expect = [](bool good, const char* setting, double found, const char* expected) {
    if (!good) refuse("the setting {} of Shampoo is {}; expected {}", setting, found, expected);
  };
  expect(beta1 >= 0 && beta1 < 1, "beta1", beta1, "a number from 0 to below 1");
  expect(beta2 > 0 && beta2 <= 1, "beta2", beta2, "a number above 0 and up to 1");
  expect(epsilon > 0, "epsilon", epsilon, "a number above 0");
  expect(grafting_epsilon > 0, "grafting_epsilon", grafting_epsilon, "a number above 0");
  expect(step_momentum >= 0 && step_momentum < 1, "step_momentum", step_momentum, "a number from 0 to below 1");
  expect(precondition_frequency >= 1, "precondition_frequency", precondition_frequency, "1 step or more");
  expect(start_preconditioning_step >= 0, "start_preconditioning_step", start_preconditioning_step, "0 or more");
  if (precondition_delay < 0 || precondition_delay >= precondition_frequency)
    refuse("the setting precondition_delay of Shampoo is {}; expected 0 to {}, less than precondition_frequency",
           precondition_delay, precondition_frequency - 1);
  // A matrix of 8192 rows takes 256 MiB, and its root some minutes.
  expect(max_preconditioner_dim >= 1 && max_preconditioner_dim <= 8192, "max_preconditioner_dim",
         max_preconditioner_dim, "1 to 8192");
}

void Shampoo::append_updates(UpdateBuilder& builder) const {
  check_settings();
  Calls(*this, builder).append();
}

Shampoo::Calls::Work Shampoo::Calls::begin(const UpdatedParameter& p, BufferId global_norm) {
  const TensorDesc desc = b.desc(p.value);
  Work w{.parameter = &p, .blocks = o.blocks_of(p.shape)};
  if (w.blocks.rank() > most_dims)
    refuse("{}: Shampoo takes parameters of up to {} dimensions; found {}", p.name, most_dims,
           keelson::to_string(p.shape));
  const ops::GraftParams graft{o.grafting, o.beta2, o.grafting_epsilon, o.clip_norm};
  const BufferId gradient = b.new_buffer(p, "gradient");
  w.graft = b.new_buffer(p, "graft");
  b.call<ops::GraftDirection, ops::GraftDirection::Forward>(
      p.name, "graft", b.make(ops::GraftDirectionDesc{graft, desc}),
      {.step_params = b.step_params(),
       .diff = p.gradient,
       .global_norm = global_norm,
       .exp_avg_sq = graft.has_state() ? b.state(p, "exp_avg_sq") : no_buffer,
       .gradient = gradient,
       .direction = w.graft,
       .loss_scale = b.loss_scale()});
  const BufferId plain = b.in_layout(gradient, Layout::plain(p.shape), p.name);
  w.gradient = b.view(plain, TensorDesc::plain(w.blocks.shape()), 0);
  for (int i = 0; i < w.blocks.rank(); ++i)
    b.call<FactorSum, FactorSum::Forward>(
        p.name, "factors", std::make_shared<FactorSum>(b.context(), FactorSumDesc{w.blocks, i, o.beta2}),
        {.src = w.gradient, .factors = b.state(p, state_of(factor_state, i)), .loss_scale = b.loss_scale()});
  return w;
}

void Shampoo::Calls::append_roots(const std::vector<Work>& all) {
  const Every every{static_cast<std::uint64_t>(o.precondition_frequency), o.first_step_with_roots()};
  ops::InverseRootsDesc d{.epsilon = o.epsilon, .decay = o.beta2, .delay = o.precondition_delay};
  std::vector<BufferId> factors, copies, roots;
  for (const Work& w : all)
    for (int i = 0; i < w.blocks.rank(); ++i) {
      for (std::int64_t k = 0; k < w.blocks.count(); ++k)
        d.matrices.push_back({std::ssize(factors), k, w.blocks.extents(k)[i], 2 * w.blocks.rank()});
      factors.push_back(b.state(*w.parameter, state_of(factor_state, i)));
      roots.push_back(b.state(*w.parameter, state_of(root_state, i)));
      if (o.precondition_delay > 0) copies.push_back(b.state(*w.parameter, state_of(delayed_state, i)));
      d.srcs.push_back(b.desc(factors.back()));
    }
  if (factors.empty()) return;
  std::vector<std::int64_t> sizes;
  for (const auto& m : d.matrices) sizes.push_back(m.size);
  const auto rank_of = detail::ranks_for_matrices(sizes, b.ranks());
  std::vector<ops::InverseRootsDesc::Matrix> mine;
  for (std::size_t i = 0; i < rank_of.size(); ++i)
    if (rank_of[i] == b.rank()) mine.push_back(d.matrices[i]);
  d.matrices = std::move(mine);

  // With several ranks, each has arrays of its own, whose sum over ranks goes into the states.
  std::vector<BufferId> computed = roots;
  for (std::size_t i = 0; i < roots.size() && b.ranks() > 1; ++i)
    computed[i] = b.new_buffer("roots of this rank", d.srcs[i]);
  const std::shared_ptr<ops::InverseRoots> op = b.make(d);
  if (!copies.empty())
    detail::append_begin(b, *op, [op](const Tensor& step_params, const auto& srcs) { op->begin(step_params, srcs); },
                         factors, copies, {every.period, static_cast<std::uint64_t>(o.start_preconditioning_step)});
  b.call<ops::InverseRoots, ops::InverseRoots::Forward>(
      "all factors", "inverse roots", op,
      {.step_params = b.step_params(), .srcs = copies.empty() ? factors : copies, .dsts = computed}, every);
  if (b.ranks() == 1) return;
  b.sum_parts(computed, "inverse roots", every);
  for (std::size_t i = 0; i < roots.size(); ++i) detail::append_copy(b, "all factors", computed[i], roots[i], every);
}

void Shampoo::Calls::finish(const Work& w) {
  const UpdatedParameter& p = *w.parameter;
  std::vector<BufferId> roots;
  for (int i = 0; i < w.blocks.rank(); ++i) roots.push_back(b.state(p, state_of(root_state, i)));
  const TensorDesc desc = b.desc(p.value);
  const BufferId product = b.new_buffer(p.name + "/direction", TensorDesc::plain(w.blocks.shape()));
  b.call<KroneckerProduct, KroneckerProduct::Forward>(
      p.name, "direction", std::make_shared<KroneckerProduct>(b.context(), KroneckerProductDesc{w.blocks}),
      {.src = w.gradient, .roots = roots, .dst = product});
  const BufferId direction = b.in_layout(b.view(product, TensorDesc::plain(p.shape), 0), desc.layout, p.name);
  const BufferId norms = o.grafting == ops::Graft::none ? no_buffer : b.sums_of_squares(p, {direction, w.graft});
  const ParameterGroup group = o.group_of(p.name);
  b.call<ops::ShampooStep, ops::ShampooStep::Forward>(
      p.name, "update",
      b.make(ops::ShampooStepDesc{desc, o.beta1, o.step_momentum, group.weight_decay, group.lr_multiplier,
                                  o.first_step_with_roots()}),
      {.step_params = b.step_params(),
       .direction = direction,
       .graft = w.graft,
       .norms = norms,
       .param = p.value,
       .exp_avg = o.beta1 > 0 ? b.state(p, "exp_avg") : no_buffer,
       .momentum_buffer = o.step_momentum > 0 ? b.state(p, "momentum_buffer") : no_buffer,
       .loss_scale = b.loss_scale()});
}

std::vector<OptimizerSetting> Shampoo::own_settings() {
  return {{"beta1", &beta1},
          {"beta2", &beta2},
          {"epsilon", &epsilon},
          {"step_momentum", &step_momentum},
          {"grafting", &grafting},
          {"grafting_epsilon", &grafting_epsilon},
          {"precondition_frequency", &precondition_frequency},
          {"start_preconditioning_step", &start_preconditioning_step},
          {"precondition_delay", &precondition_delay},
          {"max_preconditioner_dim", &max_preconditioner_dim},
          {"use_merge_dims", &use_merge_dims}};
}

std::string Shampoo::to_string() const {
  std::string text =
      fmt::format("shampoo betas {} {} epsilon {}, grafting {}", beta1, beta2, epsilon, ops::to_string(grafting));
  if (ops::GraftParams{.method = grafting}.has_state()) text += fmt::format(" epsilon {}", grafting_epsilon);
  text += fmt::format(", roots every {} steps from step {}, blocks of {}", precondition_frequency,
                      start_preconditioning_step, max_preconditioner_dim);
  if (precondition_delay > 0) text += fmt::format(", used {} steps later", precondition_delay);
  if (!use_merge_dims) text += ", dimensions not merged";
  if (step_momentum > 0) text += fmt::format(", momentum {}", step_momentum);
  return text + shared_settings();
}

}  // namespace keelson
