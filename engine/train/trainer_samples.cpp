#include "engine/base/error.hpp"
#include "engine/train/samples/evaluate_samples.hpp"
#include "engine/train/trainer.hpp"

/// What the trainer does for samples that are left out (TrainerOptions::prune).
namespace keelson {

void Trainer::choose_samples() {
  if (!pruning_.enabled()) return;
  pruning_.begin_epoch(state_.epoch);
  state_.epoch_samples = pruning_.samples()->size();
  batches_.choose(pruning_.samples());
}

void Trainer::record_losses(const PendingStep& step, const Executor::StepResult& result) {
  if (!pruning_.enabled() || step.samples.empty()) return;
  using Axis = ProcessGrid::Axis;
  const bool counts = ranks_.per_replica() == 1 || ranks_.grid().number({Axis::space, Axis::channel, Axis::stage}) == 0;
  pruning_.record(step.samples, result.sample_losses, counts);
}

void Trainer::share_losses() {
  if (!pruning_.enabled()) return;
  std::vector<float> all;
  retry_until_agreed({"the losses of samples", [&] { all = pruning_.gather(communicator_); }});
  pruning_.absorb(all);
}

void Trainer::end_epoch_of_samples() {
  if (!pruning_.enabled()) return;
  const auto left_out = pruning_.evaluates_left_out() ? pruning_.left_out() : std::vector<std::int64_t>();
  if (!left_out.empty()) {
    const Stopwatch watch;
    LossesOfSamples found;
    retry_until_agreed({"the losses of samples that were left out", [&] {
                          found = evaluate_samples(session_.graph(), parameters_, batches_.data(), left_out, options_,
                                                   ranks_.training());
                        }});
    pruning_.record(found.samples, found.losses, true);
    clock_.add_validation(watch.seconds());
  }
  share_losses();
  pruning_.end_epoch();
}

void Trainer::restore_samples(RunState& loaded, const std::string& what) {
  const auto arrays = std::move(loaded.of_samples);
  loaded.of_samples.clear();
  if (!pruning_.enabled()) return;
  const bool within = loaded.step_in_epoch > 0, same_data = loaded.train_samples == state_.train_samples;
  pruning_.restore(same_data ? arrays : decltype(loaded.of_samples)(), within, loaded.epoch, what);
  if (!within) return;
  if (pruning_.samples()->size() != samples_of_epoch(loaded))
    refuse("{}: its epoch has {} samples, but {} have a weight; no run has written this: use an earlier checkpoint",
           what, samples_of_epoch(loaded), pruning_.samples()->size());
  batches_.choose(pruning_.samples());
}

}  // namespace keelson
