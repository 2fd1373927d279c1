#include "search/genome/design.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/optimizers.hpp"
#include "search/genome/extents.hpp"

namespace keelson::search {
namespace {

/// The choices of a part of a genome, as texts and numbers.
template <class Part, class GeneName>
class Choices {
 public:
  Choices(const Part& part, const std::vector<Gene>& genes) : part_(part), genes_(genes) {}
  const std::string& text(GeneName gene) const {
    const auto i = static_cast<std::size_t>(gene);
    return genes_[i].choices[static_cast<std::size_t>(part_[i])];
  }
  double number(GeneName gene) const { return std::stod(text(gene)); }
  std::int64_t whole(GeneName gene) const { return std::stoll(text(gene)); }
  bool yes(GeneName gene) const { return text(gene) == "yes"; }

 private:
  const Part& part_;
  const std::vector<Gene>& genes_;
};

Var activated(Var x, const std::string& kind, const std::string& name) {
  if (kind == "relu") return relu(x, name);
  if (kind == "leaky_relu") return leaky_relu(x, 0.01f, name);
  if (kind == "tanh") return keelson::tanh(x, name);
  if (kind == "gelu") return gelu(x, name);
  KEELSON_EXPECT(kind == "silu");
  return silu(x, name);
}

/// What follows a convolution or a dense layer.
template <class Gene, class Part>
Var finished(Var x, const Choices<Part, Gene>& choices, const std::string& prefix) {
  if (choices.yes(Gene::batch_norm)) x = batch_norm(x, {}, prefix + "_norm");
  return activated(x, choices.text(Gene::activation), prefix + "_act");
}

template <class Gene, class Part>
Var dropped(Var x, const Choices<Part, Gene>& choices, const std::string& prefix) {
  const auto rate = static_cast<float>(choices.number(Gene::dropout));
  return rate > 0 ? dropout(x, rate, prefix + "_dropout") : x;
}

Var add_stage(Var x, const Stage& stage, const Space& space, const std::vector<std::int64_t>& extents,
              const std::string& name) {
  const Choices<Stage, StageGene> choices(stage, space.stage);
  const StageKind kind = kind_of(stage, space);
  const std::size_t dims = extents.size();
  if (kind == StageKind::pool) {
    PoolOptions pool;
    pool.kernel = Shape::filled(static_cast<int>(dims), 2);
    for (std::size_t d = 0; d < dims; ++d) pool.kernel[static_cast<int>(d)] = std::min<std::int64_t>(extents[d], 2);
    return max_pool(x, pool, name);
  }
  ConvOptions conv_options;
  conv_options.kernel = Shape::filled(static_cast<int>(dims), 1);
  for (std::size_t d = 0; d < dims; ++d)
    conv_options.kernel[static_cast<int>(d)] = choices.whole(static_cast<StageGene>(kernel_gene(d, dims)));
  conv_options.bias = !choices.yes(StageGene::batch_norm);
  conv_options.filters = kind == StageKind::conv ? choices.whole(StageGene::filters) : x.shape().shape[1];
  if (kind == StageKind::conv) {
    conv_options.stride = choices.whole(StageGene::stride);
    conv_options.padding = choices.text(StageGene::padding) == "same" ? Padding::same : Padding::valid;
  }
  Var y = finished(conv(x, conv_options, name), choices, name);
  if (kind == StageKind::residual) y = add({x, y}, name + "_sum");
  return dropped(y, choices, name);
}

}  // namespace

Graph network_of(const Genome& genome, const Space& space) {
  Graph g;
  Var h = g.input("x", space.sample);
  if (space.sample.rank() == 2 && !genome.stages.empty())
    h = reshape(h, Shape{1, space.sample[0], space.sample[1]}, "image");
  auto extents = extents_of(space);
  for (std::size_t i = 0; i < genome.stages.size(); ++i) {
    h = add_stage(h, genome.stages[i], space, extents, fmt::format("stage{}", i + 1));
    extents = extents_after(genome.stages[i], extents, space);
  }
  if (space.sample.rank() > 1) h = flatten(h);
  for (std::size_t i = 0; i < genome.dense.size(); ++i) {
    const Choices<DenseLayer, DenseGene> choices(genome.dense[i], space.dense);
    const std::string name = fmt::format("dense{}", i + 1);
    h = dense(h, DenseOptions{.features = choices.whole(DenseGene::units), .bias = !choices.yes(DenseGene::batch_norm)},
              name);
    h = dropped(finished(h, choices, name), choices, name);
  }
  h = dense(h, space.outputs, "output");
  g.set_output("prediction", h);
  if (space.classes)
    cross_entropy(h, g.input("y", {}, DType::s32));
  else
    mse(h, g.input("y", Shape{space.outputs}));
  return g;
}

Cost cost_of(const Genome& genome, const Space& space) {
  const Graph graph = network_of(genome, space);
  Cost cost{.parameters = graph.parameter_count()};
  double values = 0;
  for (const Graph::Node& node : graph.nodes()) values += static_cast<double>(node.shape.shape.elements());
  for (const ParameterSpec& p : graph.parameters()) {
    if (!p.name.ends_with("/weights")) continue;
    const std::string name = p.name.substr(0, p.name.find('/'));
    const auto node = std::ranges::find_if(graph.nodes(), [&](const auto& n) { return n.name == name; });
    const Shape& result = node->shape.shape;  // every element of a channel is a sum over the channel's weights
    cost.flops += 2.0 * static_cast<double>(p.shape.elements()) * static_cast<double>(result.elements() / result[1]);
  }
  const auto batch = training_of(genome, space, 1).batch;
  cost.bytes = static_cast<std::int64_t>(4 * (2 * values * static_cast<double>(batch) + 4 * static_cast<double>(cost.parameters)));
  return cost;
}

std::string over_limit(const Cost& cost, const Space& space) {
  if (cost.parameters > space.most_parameters)
    return fmt::format("{} parameters, at most {}", cost.parameters, space.most_parameters);
  if (cost.flops > space.most_flops) return fmt::format("{:.3g} FLOPs a sample, at most {:.3g}", cost.flops, space.most_flops);
  if (cost.bytes > space.most_bytes) return fmt::format("{} bytes, at most {}", cost.bytes, space.most_bytes);
  return "";
}

TrainingPlan training_of(const Genome& genome, const Space& space, double epochs) {
  const Choices<TrainingPart, TrainingGene> choices(genome.training, space.training);
  TrainingPlan plan;
  const std::string& name = choices.text(TrainingGene::optimizer);
  plan.optimizer = make_optimizer(name);
  plan.optimizer->weight_decay = static_cast<float>(choices.number(TrainingGene::weight_decay));
  if (auto* sgd = dynamic_cast<Sgd*>(plan.optimizer.get()))
    sgd->momentum = static_cast<float>(choices.number(TrainingGene::momentum));
  const std::string& shape = choices.text(TrainingGene::schedule);
  plan.schedule.kind = shape == "linear"   ? Schedule::Kind::linear
                       : shape == "cosine" ? Schedule::Kind::cosine
                                           : Schedule::Kind::constant;
  plan.schedule.base = choices.number(TrainingGene::rate);
  plan.schedule.epochs = epochs;
  plan.schedule.warmup_epochs = epochs * choices.number(TrainingGene::warmup);
  plan.batch = choices.whole(TrainingGene::batch);
  return plan;
}

}  // namespace keelson::search
