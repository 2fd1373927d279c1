#include "engine/ensemble/evaluator.hpp"

#include <fmt/format.h>

#include "engine/base/activity.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/detail/evaluated_batch.hpp"
#include "engine/train/fed_executor.hpp"

namespace keelson::ensemble {

struct EnsembleEvaluator::Impl {
  const Dataset& data;
  Communicator* communicator;
  EnsembleEvaluatorOptions options;
  MetricSetup setup;
  std::size_t target_field = 0;
  std::optional<Loader> loader;
  struct Member {
    FedExecutor network;
    detail::EvaluatedBatch batch;
  };
  std::vector<std::unique_ptr<Member>> members;  ///< end before the batches that they read

  Impl(const Dataset& d, Communicator* c, const EnsembleEvaluatorOptions& o) : data(d), communicator(c), options(o) {}

  void prepare(const Graph& graph) {
    setup = {.data = data.describe(),
             .samples = data.size(),
             .units = static_cast<double>(data.size()),
             .prediction_name = options.prediction};
    for (const auto& [name, node] : graph.outputs())
      if (name == options.prediction) setup.prediction = graph.nodes()[static_cast<std::size_t>(node)].shape.shape;
    if (setup.prediction.rank() == 0) refuse("the network has no output {}", options.prediction);
    const auto& fields = data.fields();
    while (target_field < fields.size() && fields[target_field].name != options.target) ++target_field;
    if (target_field == fields.size()) refuse("{} has no field {}", setup.data, options.target);
    setup.target = fields[target_field];
  }

  /// Lets a member predict a batch, and takes the predictions to the host.
  const float* predict(Member& m, const Batch& batch) {
    ops::StepParams params;
    params.sample_offset = batch.sample_offset;
    params.inverse_samples = 1;
    m.network.input.feed(batch);
    m.network.executor.forward(params);
    m.network.executor.carry_states();
    // The output is asked for anew: a larger plan of these parameters may have moved the arena.
    const std::span samples(batch.indices, static_cast<std::size_t>(batch.count));
    m.batch.send(samples, 0, nullptr, 0, m.network.executor.output(options.prediction));
    m.network.input.finish();
    m.batch.wait();
    return static_cast<const float*>(m.batch.predictions.get());
  }
};

EnsembleEvaluator::EnsembleEvaluator(const Graph& graph, std::vector<Parameters*> members, const Dataset& data,
                                     Communicator* communicator, const EnsembleEvaluatorOptions& options)
    : impl_(std::make_unique<Impl>(data, communicator, options)) {
  KEELSON_EXPECT(!members.empty());
  require_all_inputs(graph, data);
  const int ranks = communicator ? communicator->size() : 1;
  if (communicator)
    compare_values(*communicator,
                   {{"the data", fmt::format("{} [{:016x}]", counted(data.size(), "sample"), data.digest())}}, "data",
                   "let all ranks see the same files");
  if (data.size() < ranks)
    refuse("{} for {}: start fewer ranks", counted(ranks, "rank"), counted(data.size(), "sample"));
  impl_->prepare(graph);
  Context& context = members[0]->context();
  const SampleDecoding decoding = decoding_for(context.device());
  const PlanOptions plan{.batch = options.batch, .training = false, .precision = options.precision};
  for (Parameters* parameters : members) {
    KEELSON_EXPECT(&parameters->context() == &context);
    const std::size_t bytes =
        static_cast<std::size_t>(options.batch * impl_->setup.prediction.elements()) * sizeof(float);
    impl_->members.push_back(std::unique_ptr<Impl::Member>(
        new Impl::Member{.network = {graph, *parameters, plan, data, decoding}, .batch = {context.device(), bytes}}));
  }
  impl_->loader.emplace(data, LoaderOptions{.batch = options.batch,
                                            .rank = communicator ? communicator->rank() : 0,
                                            .ranks = ranks,
                                            .shuffle = false,
                                            .threads = options.threads,
                                            .decoding = decoding});
}

EnsembleEvaluator::~EnsembleEvaluator() = default;

void EnsembleEvaluator::run(Combination& combination, const Metrics& of_ensemble,
                            const std::vector<Metrics>& of_members) {
  const Activity activity(Activity::Kind::evaluation);
  const auto count = static_cast<std::int64_t>(impl_->members.size());
  const auto all_metrics = [&](const auto& visit) {
    for (const auto& m : of_ensemble) visit(*m);
    for (const auto& metrics : of_members)
      for (const auto& m : metrics) visit(*m);
  };
  combination.reset(impl_->setup, count);
  all_metrics([&](Metric& m) { m.reset(impl_->setup); });
  impl_->loader->start_epoch(0);
  for (auto& m : impl_->members) m->network.executor.reset_states();
  while (const Batch* batch = impl_->loader->next()) {
    MemberPredictions predicted{.count = batch->count, .indices = batch->indices, .targets = nullptr};
    std::vector<char> targets;
    if (batch->count > 0) {
      const auto bytes = static_cast<std::size_t>(batch->count * impl_->setup.target.bytes());
      const auto* first = static_cast<const char*>(batch->fields[impl_->target_field]);
      targets.assign(first, first + bytes);
    }
    predicted.targets = targets.data();
    for (auto& m : impl_->members) predicted.members.push_back(impl_->predict(*m, *batch));
    const float* const of_all = combination.update(predicted);
    MetricBatch shown{.count = batch->count, .indices = batch->indices, .targets = targets.data()};
    shown.predictions = of_all;
    for (const auto& m : of_ensemble) m->update(shown);
    for (std::size_t i = 0; i < of_members.size(); ++i) {
      shown.predictions = predicted.members[i];
      for (const auto& m : of_members[i]) m->update(shown);
    }
  }
  combination.reduce(impl_->communicator);
  all_metrics([&](Metric& m) { m.reduce(impl_->communicator); });
}

}  // namespace keelson::ensemble
