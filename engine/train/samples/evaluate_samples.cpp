#include "engine/train/samples/evaluate_samples.hpp"

#include "engine/train/fed_executor.hpp"

namespace keelson {

LossesOfSamples evaluate_samples(const Graph& graph, Parameters& parameters, const Dataset& data,
                                 const std::vector<std::int64_t>& samples, const TrainerOptions& options,
                                 Communicator* ranks) {
  const SampleDecoding decoding = decoding_for(parameters.context().device());
  PlanOptions plan{.batch = options.batch,
                   .micro_batch_count = options.micro_batches,
                   .training = false,
                   .precision = options.precision,
                   .sample_losses = true,
                   .peers = ranks};
  plan.exchange.reproducible = options.exchange.reproducible;
  plan.whole_parameters = options.whole_parameters() || (ranks && ranks->survives_losses());
  EpochSamples chosen{.order = samples, .weights = {}, .represented = std::ssize(samples)};
  chosen.weights.assign(static_cast<std::size_t>(data.size()), 1.0f);
  Loader loader(data, {.batch = options.batch,
                       .rank = ranks ? ranks->rank() : 0,
                       .ranks = ranks ? ranks->size() : 1,
                       .shuffle = false,
                       .threads = options.threads,
                       .decoding = decoding});
  FedExecutor network(graph, parameters, plan, data, decoding);
  loader.start_epoch(0, 0, std::make_shared<const EpochSamples>(std::move(chosen)));
  ops::StepParams params;
  params.inverse_samples = 1;
  LossesOfSamples all;
  while (const Batch* batch = loader.next()) {
    const std::int64_t size = plan.micro_batch_size();
    params.sample_offset = batch->sample_offset;
    for (std::int64_t m = 0; m * size < batch->count; ++m) {
      network.input.feed(*batch, m);
      network.executor.forward(params, m);
      network.input.finish();
    }
    const std::vector<float> losses = network.executor.sample_losses();
    all.samples.insert(all.samples.end(), batch->indices, batch->indices + batch->count);
    all.losses.insert(all.losses.end(), losses.begin(), losses.begin() + batch->count);
  }
  return all;
}

}  // namespace keelson
