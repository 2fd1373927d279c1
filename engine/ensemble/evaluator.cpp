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
    detail::EvaluatedBatch batch, variances;
  };
  std::vector<std::unique_ptr<Member>> members;  ///< end before the batches that they read

  Impl(const Dataset& d, Communicator* c, const EnsembleEvaluatorOptions& o) : data(d), communicator(c), options(o) {}

  static Shape output_shape(const Graph& graph, const std::string& wanted) {
    for (const auto& [name, node] : graph.outputs())
      if (name == wanted) return graph.nodes()[static_cast<std::size_t>(node)].shape.shape;
    refuse("the network has no output {}", wanted);
  }

  void prepare(const std::vector<EnsembleMember>& all) {
    setup = {.data = data.describe(),
             .samples = data.size(),
             .units = static_cast<double>(data.size()),
             .prediction_name = options.prediction};
    setup.prediction = output_shape(*all[0].graph, options.prediction);
    for (std::size_t m = 0; m < all.size(); ++m)
      for (const std::string& output : {options.prediction, options.variance}) {
        if (output.empty()) continue;
        if (const Shape found = output_shape(*all[m].graph, output); !(found == setup.prediction))
          refuse("member {} has the output {} of shape {}, but the predictions of member 0 are {}. Expected one shape",
                 m, output, to_string(found), to_string(setup.prediction));
      }
    const auto& fields = data.fields();
    while (target_field < fields.size() && fields[target_field].name != options.target) ++target_field;
    if (target_field == fields.size()) refuse("{} has no field {}", setup.data, options.target);
    setup.target = fields[target_field];
  }

  /// Lets a member predict a batch, and takes the predictions to the host.
  void predict(Member& m, const Batch& batch, MemberPredictions& to) {
    ops::StepParams params;
    params.sample_offset = batch.sample_offset;
    params.inverse_samples = 1;
    m.network.input.feed(batch);
    m.network.executor.forward(params);
    m.network.executor.carry_states();
    // The output is asked for anew: a larger plan of these parameters may have moved the arena.
    const std::span samples(batch.indices, static_cast<std::size_t>(batch.count));
    m.batch.send(samples, 0, nullptr, 0, m.network.executor.output(options.prediction));
    if (!options.variance.empty())
      m.variances.send(samples, 0, nullptr, 0, m.network.executor.output(options.variance));
    m.network.input.finish();
    m.batch.wait();
    m.variances.wait();
    to.members.push_back(static_cast<const float*>(m.batch.predictions.get()));
    if (!options.variance.empty()) to.variances.push_back(static_cast<const float*>(m.variances.predictions.get()));
  }
};

EnsembleEvaluator::EnsembleEvaluator(const std::vector<EnsembleMember>& members, const Dataset& data,
                                     Communicator* communicator, const EnsembleEvaluatorOptions& options)
    : impl_(std::make_unique<Impl>(data, communicator, options)) {
  KEELSON_EXPECT(!members.empty());
  for (const EnsembleMember& m : members) require_all_inputs(*m.graph, data);
  const int ranks = communicator ? communicator->size() : 1;
  if (communicator)
    compare_values(*communicator,
                   {{"the data", fmt::format("{} [{:016x}]", counted(data.size(), "sample"), data.digest())}}, "data",
                   "let all ranks see the same files");
  if (data.size() < ranks)
    refuse("{} for {}: start fewer ranks", counted(ranks, "rank"), counted(data.size(), "sample"));
  impl_->prepare(members);
  Context& context = members[0].parameters->context();
  const SampleDecoding decoding = decoding_for(context.device());
  const PlanOptions plan{.batch = options.batch, .training = false, .precision = options.precision};
  const auto bytes = static_cast<std::size_t>(options.batch * impl_->setup.prediction.elements()) * sizeof(float);
  for (const EnsembleMember& m : members) {
    KEELSON_EXPECT(&m.parameters->context() == &context);
    impl_->members.push_back(std::unique_ptr<Impl::Member>(
        new Impl::Member{.network = {*m.graph, *m.parameters, plan, data, decoding},
                         .batch = {context.device(), bytes},
                         .variances = {context.device(), options.variance.empty() ? 0 : bytes}}));
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
    for (auto& m : impl_->members) impl_->predict(*m, *batch, predicted);
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
