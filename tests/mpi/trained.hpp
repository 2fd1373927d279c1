#pragma once

#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {

/// All that a training leaves, to the last bit.
struct Trained {
  std::vector<double> losses, train_losses, metrics, validation_losses;
  std::vector<float> parameters;  ///< none if this rank has parts of them
  bool operator==(const Trained&) const = default;
};

/// A training on ranks in replicas (TrainerOptions::replica), with this many samples per step.
inline Trained train_network(const Graph& graph, const Dataset& training, const Dataset& validation, Communicator* c,
                             std::int64_t global_batch, TrainerOptions o, const std::filesystem::path& resume = {}) {
  Parameters parameters(graph, context(network_contexts().back()), o.seed);
  o.batch = global_batch * ranks_of(o.replica) / (c ? c->size() : 1);
  Trainer trainer(graph, parameters, training, &validation, c, o);
  if (!resume.empty()) trainer.resume(resume);
  Recorder recorder;
  trainer.run({&recorder});
  Trained t{recorder.losses, recorder.train_losses, recorder.metrics, {}, {}};
  if (!parameters.are_spread()) t.parameters = everything(parameters);
  for (const Evaluation& e : recorder.validations) t.validation_losses.push_back(e.loss);
  return t;
}

/// A language model on text in order, with its perplexity: `steps` in all, negative: to the end. Checkpoints go into
/// the folder `into`; empty: none.
inline Trained train_text(const Graph& graph, Communicator* c, TrainerOptions o, std::int64_t steps,
                          const std::string& into, const std::filesystem::path& resume) {
  o.shuffle = false;
  o.max_steps = steps;
  o.unit = {"word", 5};
  o.evaluation.metrics = {std::make_shared<Perplexity>()};
  if (!into.empty()) o.checkpoints.folder = into;
  return train_network(graph, TokenDataset(24), TokenDataset(16), c, 8, o, resume);
}

/// The trainings of train_cubes(), of another network.
inline Trained train_cubes(const Graph& graph, Communicator* c, std::int64_t global_batch, TrainerOptions o,
                           const std::filesystem::path& resume = {}) {
  o.transform = std::make_shared<Flip>();
  return train_network(graph, CubeDataset(19), CubeDataset(7, 6, 99), c, global_batch, o, resume);
}

/// 19 samples: the last step of an epoch has 3 of 4 or 8, so some ranks have fewer, or none. With dropout, and a
/// transform of samples.
inline Trained train_cubes(Communicator* c, std::int64_t global_batch, TrainerOptions o,
                           const std::filesystem::path& resume = {}) {
  return train_cubes(small_network(0.25f), c, global_batch, std::move(o), resume);
}

}  // namespace keelson::testing
