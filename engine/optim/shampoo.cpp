#include "engine/optim/shampoo.hpp"

#include <algorithm>

#include "engine/optim/detail/share_out.hpp"
#include "engine/plan/update_builder.hpp"

namespace keelson {

namespace {

/// Of parameters: convolutions of volumes have five.
constexpr int most_dims = 5;

std::string factor_state(int dim) { return fmt::format("factor_matrices_{}", dim); }
std::string root_state(int dim) { return fmt::format("inv_factor_matrices_{}", dim); }

/// The first states are of the parameter's shape; then come a factor and its root for each dimension.
int dim_of_state(std::size_t state, std::size_t names) {
  const auto first = names - 2 * most_dims;
  return state < first ? -1 : static_cast<int>(state - first) / 2;
}

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

std::vector<std::string> Shampoo::state_names() const {
  std::vector<std::string> names;
  if (beta1 > 0) names.emplace_back("exp_avg");
  if (ops::GraftParams{.method = grafting}.has_state()) names.emplace_back("exp_avg_sq");
  if (step_momentum > 0) names.emplace_back("momentum_buffer");
  for (int i = 0; i < most_dims; ++i) {
    names.push_back(factor_state(i));
    names.push_back(root_state(i));
  }
  return names;
}

std::optional<Shape> Shampoo::own_state_shape(std::size_t state, const Shape& parameter, std::int64_t) const {
  check_settings();  // plans ask for shapes first
  const int dim = dim_of_state(state, state_names().size());
  if (dim < 0) return std::nullopt;
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
        {.src = w.gradient, .factors = b.state(p, factor_state(i)), .loss_scale = b.loss_scale()});
  return w;
}

void Shampoo::Calls::append_roots(const std::vector<Work>& all) {
  const Every every{static_cast<std::uint64_t>(o.precondition_frequency),
                    static_cast<std::uint64_t>(o.start_preconditioning_step)};
  ops::InverseRootsDesc d{.epsilon = o.epsilon, .decay = o.beta2};
  std::vector<BufferId> factors, roots;
  for (const Work& w : all)
    for (int i = 0; i < w.blocks.rank(); ++i) {
      for (std::int64_t k = 0; k < w.blocks.count(); ++k)
        d.matrices.push_back({std::ssize(factors), k, w.blocks.extents(k)[i], 2 * w.blocks.rank()});
      factors.push_back(b.state(*w.parameter, factor_state(i)));
      roots.push_back(b.state(*w.parameter, root_state(i)));
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
  b.call<ops::InverseRoots, ops::InverseRoots::Forward>(
      "all factors", "inverse roots", b.make(d), {.step_params = b.step_params(), .srcs = factors, .dsts = computed},
      every);
  if (b.ranks() == 1) return;
  b.sum_parts(computed, "inverse roots", every);
  for (std::size_t i = 0; i < roots.size(); ++i)
    b.call<ops::Reorder, ops::Reorder::Forward>("all factors", "copy", b.make(ops::ReorderDesc{d.srcs[i], d.srcs[i]}),
                                                {.src = computed[i], .dst = roots[i]}, every);
}

void Shampoo::Calls::finish(const Work& w) {
  const UpdatedParameter& p = *w.parameter;
  std::vector<BufferId> roots;
  for (int i = 0; i < w.blocks.rank(); ++i) roots.push_back(b.state(p, root_state(i)));
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
                                  static_cast<std::uint64_t>(o.start_preconditioning_step)}),
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
          {"max_preconditioner_dim", &max_preconditioner_dim},
          {"use_merge_dims", &use_merge_dims}};
}

std::string Shampoo::to_string() const {
  std::string text =
      fmt::format("shampoo betas {} {} epsilon {}, grafting {}", beta1, beta2, epsilon, ops::to_string(grafting));
  if (ops::GraftParams{.method = grafting}.has_state()) text += fmt::format(" epsilon {}", grafting_epsilon);
  text += fmt::format(", roots every {} steps from step {}, blocks of {}", precondition_frequency,
                      start_preconditioning_step, max_preconditioner_dim);
  if (!use_merge_dims) text += ", dimensions not merged";
  if (step_momentum > 0) text += fmt::format(", momentum {}", step_momentum);
  return text + shared_settings();
}

}  // namespace keelson
