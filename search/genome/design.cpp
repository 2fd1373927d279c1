#include "search/genome/design.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/optimizers.hpp"
#include "search/genome/choices.hpp"
#include "search/genome/steps.hpp"

namespace keelson::search {
namespace {

Var activated(Var x, const Step& step) {
  if (step.activation == "relu") return relu(x, step.name);
  if (step.activation == "leaky_relu") return leaky_relu(x, leaky_slope, step.name);
  if (step.activation == "tanh") return keelson::tanh(x, step.name);
  if (step.activation == "gelu") return gelu(x, step.name);
  if (step.activation == "elu") return elu(x, 1, step.name);
  KEELSON_EXPECT(step.activation == "silu");
  return silu(x, step.name);
}

Var convolved(Var x, const Step& step) {
  ConvOptions options;
  options.filters = step.features;
  options.kernel = step.shape;
  options.stride = step.stride;
  options.padding = step.same ? Padding::same : Padding::valid;
  options.bias = step.bias;
  return conv(x, options, step.name);
}

Var apply(const Step& step, Var x, const std::map<std::string, Var>& results) {
  switch (step.kind) {
    case Step::Kind::reshape:
      return reshape(x, step.shape, step.name);
    case Step::Kind::rows:
      return flatten(x, step.channels_last ? ElementOrder::channels_last : ElementOrder::logical, step.features,
                     step.name);
    case Step::Kind::lstm:
      return lstm(x, {.hidden = step.features, .carries_state = false}, step.name);
    case Step::Kind::gru:
      return gru(x, {.hidden = step.features, .carries_state = false}, step.name);
    case Step::Kind::last_step:
      return last_step(x, step.name);
    case Step::Kind::conv:
      return convolved(x, step);
    case Step::Kind::max_pool:
      return max_pool(x, PoolOptions{.kernel = step.shape}, step.name);
    case Step::Kind::batch_norm:
      return batch_norm(x, {}, step.name);
    case Step::Kind::activation:
      return activated(x, step);
    case Step::Kind::add:
      return add({results.at(step.with), x}, step.name);
    case Step::Kind::dropout:
      return dropout(x, step.rate, step.name);
    case Step::Kind::flatten:
      return flatten(x, ElementOrder::logical, 0, step.name);
    case Step::Kind::dense:
      return dense(x, DenseOptions{.features = step.features, .bias = step.bias}, step.name);
  }
  fail("a layer of an unknown kind");
}

}  // namespace

Graph network_of(const Genome& genome, const Space& space) {
  Graph g;
  Var h = g.input("x", space.sample);
  std::map<std::string, Var> results{{"x", h}};
  for (const Step& step : steps_of(genome, space)) {
    h = apply(step, h, results);
    results[step.name] = h;
  }
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
  cost.bytes = static_cast<std::int64_t>(
      4 * (2 * values * static_cast<double>(batch) + 4 * static_cast<double>(cost.parameters)));
  return cost;
}

std::string over_limit(const Cost& cost, const Space& space) {
  if (cost.parameters > space.most_parameters)
    return fmt::format("{} parameters, at most {}", cost.parameters, space.most_parameters);
  if (cost.flops > space.most_flops)
    return fmt::format("{:.3g} FLOPs a sample, at most {:.3g}", cost.flops, space.most_flops);
  if (cost.bytes > space.most_bytes) return fmt::format("{} bytes, at most {}", cost.bytes, space.most_bytes);
  return "";
}

TrainingPlan training_of(const Genome& genome, const Space& space, double epochs) {
  const TrainingChoices choices(genome.training, space.training);
  TrainingPlan plan;
  const std::string& name = choices.text(TrainingGene::optimizer);
  plan.optimizer = make_optimizer(name);
  plan.optimizer->weight_decay = static_cast<float>(choices.number(TrainingGene::weight_decay));
  if (auto* sgd = dynamic_cast<Sgd*>(plan.optimizer.get()))
    sgd->momentum = static_cast<float>(choices.number(TrainingGene::momentum));
  if (choices.has(TrainingGene::options)) read_settings(*plan.optimizer, choices.text(TrainingGene::options));
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
