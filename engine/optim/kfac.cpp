#include "engine/optim/kfac.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/ops/combine.hpp"
#include "engine/optim/detail/delayed_work.hpp"
#include "engine/optim/detail/share_out.hpp"
#include "engine/optim/kfac_products.hpp"
#include "engine/plan/update_builder.hpp"

namespace keelson {

using detail::append_copy;

namespace {

/// Such a matrix takes 256 MiB, and its inverse a minute on a core.
constexpr std::int64_t most_block_rows = 8192;
/// 8192 inputs, and the 1 of the bias.
constexpr std::int64_t most_factor_rows = most_block_rows + 1;

constexpr const char *a_state = "a_factor", *g_state = "g_factor", *a_inverse_state = "a_inverse",
                     *g_inverse_state = "g_inverse", *delayed_a_state = "delayed_a_factor",
                     *delayed_g_state = "delayed_g_factor";

/// Weights in the memory of a plain matrix whose rows have `columns` elements, in the order of ops::PatchesDesc.
TensorDesc weights_within(const Shape& weights, std::int64_t columns) {
  Shape strides = weights;
  strides[0] = columns;
  strides[1] = 1;
  std::int64_t next = weights[1];
  for (int i = weights.rank() - 1; i >= 2; --i) strides[i] = std::exchange(next, next * weights[i]);
  return {weights, DType::f32, Layout::strided(weights, strides)};
}

/// The bias as the last column of such a matrix.
TensorDesc bias_within(std::int64_t rows, std::int64_t columns) {
  return {{rows}, DType::f32, Layout::strided({rows}, {columns})};
}

void require_factors(const std::string& weights, std::int64_t rows) {
  if (rows > most_factor_rows)
    refuse(
        "{}: K-FAC would need a factor of {} rows, more than {}. Give the optimizer the setting block_size=128, which "
        "cuts factors into blocks, or plain_above={}, which lets such layers move by momentum SGD",
        weights, rows, most_factor_rows, most_factor_rows);
}

}  // namespace

/// A layer between the calls of a step.
struct Kfac::Work {
  const Observation* observed;
  const UpdatedParameter *weights, *bias;  ///< bias: null if the layer has none
  ops::PatchesDesc patches;                ///< of the source
  BufferId gradient = no_buffer;           ///< plain (outputs, columns)
  BufferId direction = no_buffer;          ///< the same

  std::int64_t outputs() const { return weights->shape[0]; }
  std::int64_t inputs() const { return weights->shape.elements() / outputs(); }
  std::int64_t columns() const { return inputs() + (bias ? 1 : 0); }
  /// The weights' part of a matrix (outputs, columns).
  TensorDesc weights_part() const {
    return {{outputs(), inputs()}, DType::f32, Layout::strided({outputs(), inputs()}, {columns(), 1})};
  }
  /// The bias' part, the last column.
  TensorDesc bias_part() const { return {{outputs(), 1}, DType::f32, Layout::strided({outputs(), 1}, {columns(), 1})}; }
};

std::vector<std::string> Kfac::state_names() const {
  std::vector<std::string> names;
  if (momentum > 0) names.emplace_back("momentum_buffer");
  for (const char* state : {a_state, g_state, a_inverse_state, g_inverse_state}) names.emplace_back(state);
  if (inv_update_delay > 0)
    for (const char* state : {delayed_a_state, delayed_g_state}) names.emplace_back(state);
  return names;
}

std::optional<Shape> Kfac::own_state_shape(std::size_t state, const Shape& parameter,
                                           std::int64_t product_inputs) const {
  check_settings();  // plans ask for shapes first
  const std::string name = state_names()[state];
  if (name == "momentum_buffer") return std::nullopt;
  if (product_inputs == 0 || !observes(parameter, product_inputs)) return Shape{0};
  if (block_size == 0)
    require_factors("weights " + keelson::to_string(parameter), std::max(parameter[0], product_inputs));
  const bool is_a = name == a_state || name == a_inverse_state || name == delayed_a_state;
  const bool is_inverse = name == a_inverse_state || name == g_inverse_state;
  const ops::DiagonalBlocks blocks = blocks_of(is_a ? product_inputs : parameter[0]);
  return is_inverse ? ops::FactorInversesDesc::inverse(blocks, eigen).shape : blocks.whole().shape;
}

bool Kfac::observes(const Shape& weights, std::int64_t product_inputs) const {
  return plain_above == 0 || std::max(weights[0], product_inputs) <= plain_above;
}

std::uint64_t Kfac::observation_period() const { return static_cast<std::uint64_t>(std::max(1, factor_update_steps)); }

void Kfac::check_settings() const {
  const auto expect = [](bool good, const char* setting, double found, const char* expected) {
    if (!good) refuse("the setting {} of KFAC is {}; expected {}", setting, found, expected);
  };
  expect(momentum >= 0 && momentum < 1, "momentum", momentum, "a number from 0 to below 1");
  expect(damping >= 0, "damping", damping, "0 or more");
  expect(factor_decay >= 0 && factor_decay < 1, "factor_decay", factor_decay, "a number from 0 to below 1");
  expect(kl_clip >= 0, "kl_clip", kl_clip, "0 or more");
  expect(factor_update_steps >= 1, "factor_update_steps", factor_update_steps, "1 step or more");
  expect(inv_update_steps >= 1, "inv_update_steps", inv_update_steps, "1 step or more");
  if (inv_update_delay < 0 || inv_update_delay >= inv_update_steps)
    refuse("the setting inv_update_delay of KFAC is {}; expected 0 to {}, less than inv_update_steps", inv_update_delay,
           inv_update_steps - 1);
  expect(factor_positions >= 0, "factor_positions", factor_positions, "0 or more");
  expect(block_size >= 0 && block_size <= most_block_rows, "block_size", block_size, "0 to 8192");
  expect(plain_above >= 0, "plain_above", plain_above, "0 or more");
}

ops::PatchesDesc Kfac::patches_of(const LayerProduct& product, const TensorDesc& src, std::int64_t samples) const {
  return {.window = product.window, .src = src, .samples = samples, .at_most = factor_positions};
}

std::vector<int> Kfac::append_observation(BackwardBuilder& b, const LayerProduct& product) const {
  const ops::PatchesDesc windows = patches_of(product, b.desc(product.src), b.batch());
  const bool bias = !product.bias.empty();
  const ops::DiagonalBlocks a_blocks = blocks_of(windows.columns() - (bias ? 0 : 1));
  const PatchGramDesc a{windows, ops::RunningFactorsDesc::sums_of(a_blocks, bias)};
  const ops::PatchesDesc rows{.window = {.kernel = Shape::filled(product.window.kernel.rank(), 1),
                                         .stride = Shape::filled(product.window.kernel.rank(), 1),
                                         .dilation = Shape::filled(product.window.kernel.rank(), 1),
                                         .pad_begin = Shape::filled(product.window.kernel.rank(), 0),
                                         .pad_end = Shape::filled(product.window.kernel.rank(), 0)},
                              .src = b.desc(product.diff_dst),
                              .samples = b.batch(),
                              .ones = false};
  const PatchGramDesc g{.patches = rows, .blocks = blocks_of(rows.columns()), .weighted = false};
  const auto append = [&](const PatchGramDesc& d, BufferId src, BufferId weight, const char* name) {
    const BufferId sums = b.new_buffer(fmt::format("sums of {}", name), d.sums());
    b.forward(std::make_shared<PatchGram>(b.context(), d),
              {.step_params = b.step_params(), .src = src, .weight = weight, .sums = sums}, name);
    return sums;
  };
  const BufferId a_sums = append(a, product.src, b.sample_weight(), "factor A");
  return {a_sums, append(g, product.diff_dst, no_buffer, "factor G")};
}

std::vector<Kfac::Work> Kfac::works(UpdateBuilder& b) const {
  const auto find = [&](const std::string& name) -> const UpdatedParameter* {
    const auto found = std::ranges::find(b.parameters(), name, &UpdatedParameter::name);
    if (found == b.parameters().end()) fail("no gradient flows to {}, whose layer K-FAC observes", name);
    return &*found;
  };
  std::vector<Work> all;
  for (const Observation& o : b.observations())
    all.push_back({&o, find(o.product.weights), o.product.bias.empty() ? nullptr : find(o.product.bias),
                   patches_of(o.product, b.desc(o.product.src), b.samples())});
  return all;
}

void Kfac::append_updates(UpdateBuilder& b) const {
  check_settings();
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  std::vector<Work> all = works(b);
  if (!all.empty()) {
    append_factors(b, all);
    append_inverses(b, all);
    append_directions(b, all, global_norm);
  }
  const auto has_direction = [&](const UpdatedParameter& p) {
    return std::ranges::any_of(all, [&](const Work& w) { return w.weights == &p || w.bias == &p; });
  };
  for (const UpdatedParameter& p : b.parameters())
    if (!has_direction(p)) append_step(b, p, p.gradient, global_norm);
}

void Kfac::append_factors(UpdateBuilder& b, const std::vector<Work>& all) const {
  const Every every{observation_period(), 0};
  std::vector<BufferId> sums;
  for (const Work& w : all) sums.insert(sums.end(), w.observed->values.begin(), w.observed->values.end());
  b.sum_parts(sums, "factors", every);
  for (const Work& w : all) {
    const ops::RunningFactorsDesc d{.a_blocks = blocks_of(w.columns()),
                                    .g_blocks = blocks_of(w.outputs()),
                                    .bias = w.bias != nullptr,
                                    .positions = w.patches.positions(),
                                    .chosen = w.patches.chosen(),
                                    .decay = factor_decay};
    b.call<ops::RunningFactors, ops::RunningFactors::Forward>(w.weights->name, "factors", b.make(d),
                                                              {.step_params = b.step_params(),
                                                               .a_sums = w.observed->values[0],
                                                               .g_sums = w.observed->values[1],
                                                               .a = b.state(*w.weights, a_state),
                                                               .g = b.state(*w.weights, g_state),
                                                               .loss_scale = b.loss_scale()},
                                                              every);
  }
}

void Kfac::append_inverses(UpdateBuilder& b, const std::vector<Work>& all) const {
  const Every every{static_cast<std::uint64_t>(inv_update_steps), static_cast<std::uint64_t>(inv_update_delay)};
  ops::FactorInversesDesc d{.damping = damping, .eigen = eigen};
  std::vector<BufferId> factors, copies, inverses;
  for (const Work& w : all)
    for (const auto& [factor, inverse, copy] :
         {std::tuple{a_state, a_inverse_state, delayed_a_state}, {g_state, g_inverse_state, delayed_g_state}}) {
      if (inv_update_delay > 0) copies.push_back(b.state(*w.weights, copy));
      factors.push_back(b.state(*w.weights, factor));
      inverses.push_back(b.state(*w.weights, inverse));
      d.blocks.push_back(blocks_of(factor == a_state ? w.columns() : w.outputs()));
    }
  const auto matrices = d.all_matrices();
  std::vector<std::int64_t> rows;
  for (const auto& m : matrices) rows.push_back(d.blocks[static_cast<std::size_t>(m.factor)].rows_of(m.block));
  const auto rank_of = detail::ranks_for_matrices(rows, b.ranks());
  for (std::size_t i = 0; i < rank_of.size(); ++i)
    if (rank_of[i] == b.rank()) d.matrices.push_back(matrices[i]);

  const std::shared_ptr<ops::FactorInverses> op = b.make(d);
  if (!copies.empty())
    detail::append_begin(b, *op, [op](const Tensor&, const auto& srcs) { op->begin(srcs); }, factors, copies,
                         {every.period, 0});
  const auto append = [&](const std::vector<BufferId>& dsts) {
    b.call<ops::FactorInverses, ops::FactorInverses::Forward>(
        "all factors", eigen ? "eigenvectors" : "inverses", op,
        {.factors = copies.empty() ? factors : copies, .inverses = dsts}, every);
  };
  if (b.ranks() == 1) return append(inverses);
  // All inverses are one array, to which each rank adds those that it has computed.
  const auto descs = d.inverses();
  std::vector<BufferId> computed;
  for (const TensorDesc& inverse : descs) computed.push_back(b.new_buffer("inverse of this rank", inverse));
  append(computed);
  b.sum_parts(computed, "inverses of factors", every);
  for (std::size_t i = 0; i < inverses.size(); ++i) append_copy(b, "all factors", computed[i], inverses[i], every);
}

void Kfac::append_directions(UpdateBuilder& b, std::vector<Work>& all, BufferId global_norm) const {
  const BufferId products = b.new_sums("products of directions and gradients", std::ssize(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Work& w = all[i];
    const std::string& node = w.weights->name;
    const TensorDesc matrix = TensorDesc::plain({w.outputs(), w.columns()});
    w.gradient = b.new_buffer(node + "/gradient", matrix);
    w.direction = b.new_buffer(node + "/direction", matrix);
    append_copy(b, node, w.weights->gradient, b.view(w.gradient, weights_within(w.weights->shape, w.columns()), 0));
    if (w.bias)
      append_copy(b, node, w.bias->gradient,
                  b.view(w.gradient, bias_within(w.outputs(), w.columns()),
                         static_cast<std::size_t>(w.inputs()) * sizeof(float)));
    b.call<KfacDirection, KfacDirection::Forward>(
        node, "direction",
        std::make_shared<KfacDirection>(
            b.context(), KfacDirectionDesc{blocks_of(w.outputs()), blocks_of(w.columns()), eigen, damping}),
        {.src = w.gradient,
         .a_inverse = b.state(*w.weights, a_inverse_state),
         .g_inverse = b.state(*w.weights, g_inverse_state),
         .dst = w.direction});
    const double rate = group_of(node).lr_multiplier;
    b.call<ops::InnerProduct, ops::InnerProduct::Forward>(
        node, "inner product", b.make(ops::InnerProductDesc{matrix, static_cast<std::int64_t>(i), rate * rate}),
        {.a = w.direction, .b = w.gradient, .sums = products});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Work& w = all[i];
    const auto append = [&](const UpdatedParameter& p, const TensorDesc& part, std::int64_t column) {
      const ops::KlClipDesc d{part, static_cast<std::int64_t>(i), kl_clip, clip_norm};
      const std::size_t first = static_cast<std::size_t>(column) * sizeof(float);
      const BufferId step = b.new_buffer(p.name + "/step", {p.shape, DType::f32, Layout::channels_last(p.shape)});
      b.call<ops::KlClip, ops::KlClip::Forward>(p.name, "kl clip", b.make(d),
                                                {.step_params = b.step_params(),
                                                 .direction = b.view(w.direction, part, first),
                                                 .gradient = b.view(w.gradient, part, first),
                                                 .products = products,
                                                 .global_norm = global_norm,
                                                 .dst = b.view(step, d.dst()),
                                                 .loss_scale = b.loss_scale()});
      append_step(b, p, b.in_layout(step, b.desc(p.value).layout, p.name), global_norm);
    };
    append(*w.weights, w.weights_part(), 0);
    if (w.bias) append(*w.bias, w.bias_part(), w.inputs());
  }
}

/// Direction and gradient are both those of the scaled loss: ops::Update divides by the scale, and clips.
void Kfac::append_step(UpdateBuilder& b, const UpdatedParameter& p, BufferId direction, BufferId global_norm) const {
  const ParameterGroup group = group_of(p.name);
  ops::UpdateParams params;
  params.kind = ops::UpdateKind::sgd;
  params.momentum = momentum;
  params.weight_decay = group.weight_decay;
  params.lr_multiplier = group.lr_multiplier;
  params.clip_norm = clip_norm;
  b.call<ops::Update, ops::Update::Forward>(p.name, "update", b.make(ops::UpdateDesc{params, b.desc(p.value)}),
                                            {.step_params = b.step_params(),
                                             .diff = direction,
                                             .global_norm = global_norm,
                                             .param = p.value,
                                             .moment1 = momentum > 0 ? b.state(p, "momentum_buffer") : no_buffer,
                                             .loss_scale = b.loss_scale()});
}

std::vector<OptimizerSetting> Kfac::own_settings() {
  return {{"momentum", &momentum},
          {"damping", &damping},
          {"factor_decay", &factor_decay},
          {"kl_clip", &kl_clip},
          {"factor_update_steps", &factor_update_steps},
          {"inv_update_steps", &inv_update_steps},
          {"inv_update_delay", &inv_update_delay},
          {"factor_positions", &factor_positions},
          {"block_size", &block_size},
          {"plain_above", &plain_above},
          {"eigen", &eigen}};
}

std::string Kfac::to_string() const {
  std::string text =
      fmt::format("kfac momentum {} damping {}, factors every {} steps with decay {}, {} every {} steps", momentum,
                  damping, factor_update_steps, factor_decay, eigen ? "eigenvectors" : "inverses", inv_update_steps);
  if (inv_update_delay > 0) text += fmt::format(", used {} steps later", inv_update_delay);
  if (kl_clip > 0) text += fmt::format(", kl clip {}", kl_clip);
  if (factor_positions > 0) text += fmt::format(", {} positions", factor_positions);
  if (block_size > 0) text += fmt::format(", blocks of {}", block_size);
  if (plain_above > 0) text += fmt::format(", plain above {}", plain_above);
  return text + shared_settings();
}

}  // namespace keelson
