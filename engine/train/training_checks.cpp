#include "engine/train/training_checks.hpp"

#include <fmt/ranges.h>

#include <map>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/input_pipeline.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson {
namespace {

/// Without the paths, which may differ.
std::string describe_data(const Dataset& data) {
  return fmt::format("{} [{:016x}]", counted(data.size(), "sample"), data.digest());
}

/// What must be alike on all ranks for training to mean anything.
void compare_runs(const Dataset& training, const Dataset* validation, const TrainerOptions& o, Communicator& ranks,
                  int threads) {
  compare_values(
      ranks,
      {{"training data", describe_data(training)}, {"validation data", validation ? describe_data(*validation) : ""}},
      "data", "let all ranks see the same files");
  const auto& checkpoints = o.checkpoints;
  std::map<std::string, std::string> values{
      {"network", o.network},
      {"batch", std::to_string(o.batch)},
      {"micro-batches", std::to_string(o.micro_batches)},
      {"replica", options_of(o.replica)},
      {"beginnings of stages", fmt::format("{}", fmt::join(o.stage_starts, ", "))},
      {"epochs", std::to_string(o.epochs)},
      {"step limit", std::to_string(o.max_steps)},
      {"time limit", fmt::format("{}", o.time_limit)},
      {"target", fmt::format("{}", o.target)},
      {"seed", std::to_string(o.seed)},
      {"shuffling", o.shuffle ? "on" : "off"},
      {"rule for leaving samples out", o.prune.to_string()},
      {"sample transform", o.transform ? o.transform->describe() : "none"},
      {"precision", std::string(to_string(o.precision))},
      {"steps between measurements of the noise scale", std::to_string(o.noise_scale)},
      {"reproducible sums", o.exchange.reproducible ? "on" : "off"},
      {"shards of the optimizer", std::string(to_string(o.exchange.shards))},
      {"optimizer", o.optimizer->to_string()},
      {"synchronization", o.sync.to_string()},
      {"learning rate", o.schedule.to_string()},
      {"checkpoints",
       fmt::format("every {}, every {}", counted(checkpoints.epochs, "epoch"), counted(checkpoints.steps, "step"))}};
  if (o.exchange.reproducible) values["threads"] = std::to_string(threads);
  for (const auto& [name, text] : o.texts) values[name] = fmt::format("{:016x}", fnv1a(text.data(), text.size()));
  compare_values(ranks, values, "options");
}

/// Throws InputError if SyncMode does not go with the other options.
void require_sync_mode(const TrainerOptions& o, Communicator* ranks) {
  if (o.sync.kind == SyncMode::Kind::synchronous) return;
  const auto mode = o.sync.to_string();
  if (o.precision == Precision::fp16)
    refuse(
        "synchronization {} with fp16: all ranks must agree on the scale of the loss in each step, which only "
        "synchronous training does. Give --precision bf16, or --sync synchronous",
        mode);
  if (o.exchange.reproducible)
    refuse(
        "synchronization {} with reproducible sums (--reproducible): what this mode computes depends on the number of "
        "ranks or begins a step late. Leave --reproducible out, or give --sync synchronous",
        mode);
  if (!ranks || ranks->size() == 1) return;
  if (o.sync.kind != SyncMode::Kind::lag && !o.optimizer->can_average_states())
    refuse(
        "synchronization {} with eigenvectors (kfac, eigen=true): this mode averages the optimizer's states over "
        "ranks, "
        "and a mean of eigenvectors is none. Leave eigen=true out, or give --sync synchronous",
        mode);
  if (ranks->survives_losses())
    refuse(
        "synchronization {} on {} that survive losses: only synchronous training goes on without ranks that die. "
        "Start the program without --with-ft ulfm, or give --sync synchronous",
        mode, counted(ranks->size(), "rank"));
  if (o.sync.kind != SyncMode::Kind::lag && o.exchange.wire != Wire::fp32)
    refuse(
        "synchronization {} with a wire of 16 bits: that is for gradients, and this mode sends parameters. Give --wire "
        "fp32, or --sync synchronous or lag",
        mode);
}

/// Throws InputError if the optimizer cannot be in shards.
void require_shards(const TrainerOptions& o, Communicator* ranks) {
  if (o.exchange.shards == OptimizerShards::none || !ranks || ranks->size() == 1) return;
  if (o.sync.kind != SyncMode::Kind::synchronous)
    refuse(
        "synchronization {} with shards of the optimizer (--shard-optimizer): ranks that update a part of the "
        "parameters "
        "each need the others in every step. Give --sync synchronous, or leave --shard-optimizer out",
        o.sync.to_string());
  if (ranks->survives_losses())
    refuse(
        "shards of the optimizer (--shard-optimizer) on {} that survive losses: the moments of a rank that dies would "
        "be "
        "lost. Start the program without --with-ft ulfm, or leave --shard-optimizer out",
        counted(ranks->size(), "rank"));
}

/// Throws InputError if more than one rank of a replica does not go with the other options.
void require_replicas(const TrainerOptions& o, Communicator* ranks) {
  if (ranks_of(o.replica) == 1) return;
  const auto options = options_of(o.replica);
  if (o.sync.kind != SyncMode::Kind::synchronous)
    refuse(
        "replicas of {} ({}) with synchronization {}: only synchronous training has replicas of several ranks. Give "
        "--sync synchronous",
        counted(ranks_of(o.replica), "rank"), options, o.sync.to_string());
  if (o.replica.channel == 1 && o.replica.stage == 1) return;
  if (ranks && ranks->survives_losses())
    refuse(
        "parts of the parameters on each rank ({}) on {} that survive losses: the part of a rank that dies would be "
        "lost. Start the program without --with-ft ulfm, or share samples alone, or parts of them (--spatial)",
        options, counted(ranks->size(), "rank"));
  if (o.change_network)
    refuse(
        "parts of the parameters on each rank ({}) with TrainerOptions::change_network (--apoptosis, --grow): a "
        "network "
        "can change only where each rank has whole parameters. Leave {} out",
        options, options);
}

/// Throws InputError if samples cannot be left out.
void require_prunable(const Graph& graph, const TrainerOptions& o) {
  if (!o.prune.enabled()) return;
  const std::string_view rule = to_string(o.prune.rule);
  if (o.bag) refuse("--prune-samples {} with --bag: both decide how much a sample counts. Leave one of them out", rule);
  if (o.sync.updates_locally(o.epochs))
    refuse(
        "--prune-samples {} with synchronization {}: only synchronous training and lag know the losses of samples. "
        "Give "
        "--sync synchronous",
        rule, o.sync.to_string());
  if (std::ranges::any_of(graph.nodes(), [](const Graph::Node& n) { return n.is_state; }))
    refuse(
        "--prune-samples {} for a network with recurrent states: each of its samples goes on where the one before has "
        "ended, so none can be left out. Leave --prune-samples out",
        rule);
  if (o.prune.rule == PruneRule::kakurenbo && ranks_of(o.replica) > 1)
    refuse(
        "--prune-samples kakurenbo with replicas of {} ranks ({}): samples that are left out are evaluated by single "
        "ranks. Give another rule, or leave {} out",
        ranks_of(o.replica), options_of(o.replica), options_of(o.replica));
}

/// Throws InputError for what the plan does not know of (require_noise_scale(const PlanOptions&) knows the rest).
void require_noise_scale(const TrainerOptions& o) {
  if (o.noise_scale < 0)
    refuse("the noise scale is measured every {} steps: expected 0 (never) or a positive number", o.noise_scale);
  if (o.noise_scale == 0) return;
  if (o.sync.kind != SyncMode::Kind::synchronous)
    refuse(
        "the noise scale (--noise-scale) with synchronization {}: it compares gradients that all ranks make of the "
        "same parameters. Give --sync synchronous, or leave --noise-scale out",
        o.sync.to_string());
  if (o.prune.enabled())
    refuse(
        "the noise scale (--noise-scale) with --prune-samples {}: an epoch of chosen samples has another noise than "
        "the data. Leave one of the two options out",
        to_string(o.prune.rule));
}

}  // namespace

void require_enough_samples(std::int64_t samples, std::int64_t batch, int replicas, const std::string& data,
                            int space) {
  const std::string who = space == 1 ? "rank" : "replica", all = counted(replicas, who);
  if (batch < 1) refuse("a batch of {} was asked for; it must hold at least one sample per {}", batch, who);
  if (samples < replicas)
    refuse("{} for {} ({}): start fewer ranks or give more data", all, counted(samples, "training sample"), data);
  if (samples < batch * replicas)
    refuse(
        "a batch of {} ({} per {} on {}) is larger than the training data ({}): give a smaller batch or more "
        "data",
        batch * replicas, batch, who, all, data);
}

void require_trainable(const Graph& graph, const Dataset& training, const Dataset* validation,
                       const TrainerOptions& options, Communicator* ranks, int threads) {
  if (ranks && ranks->size() > 1) compare_runs(training, validation, options, *ranks, threads);
  const int replicas = training_grid(ranks, options.replica).extent(ProcessGrid::Axis::data);
  require_enough_samples(training.size(), options.batch, replicas, training.describe(), ranks_of(options.replica));
  require_all_inputs(graph, training);
  require_sync_mode(options, ranks);
  require_shards(options, ranks);
  require_replicas(options, ranks);
  require_prunable(graph, options);
  require_noise_scale(options);
}

void require_resumable(const CheckpointReader& checkpoint, const RunState& now, bool leaves_samples_out) {
  const auto kind = [](const std::string& optimizer) { return optimizer.substr(0, optimizer.find(' ')); };
  const auto path = checkpoint.path().string();
  const RunState& found = checkpoint.state();
  if (kind(found.optimizer) != kind(now.optimizer))
    refuse("{}: was trained with the optimizer '{}', not '{}': resume with that optimizer", path, found.optimizer,
           now.optimizer);
  if (found.seed != now.seed)
    refuse("{}: was trained with seed {}, not {}: resume with that seed", path, found.seed, now.seed);
  if (found.step_in_epoch > 0 && found.global_batch != now.global_batch)
    refuse(
        "{}: stands within an epoch of batches of {} samples, but this run has batches of {} on {}: resume with ranks "
        "x batch = {}, or give --global-batch {}",
        path, found.global_batch, now.global_batch, counted(now.world_size, "rank"), found.global_batch,
        found.global_batch);
  if (found.step_in_epoch > 0 && found.train_samples != now.train_samples)
    refuse("{}: stands within an epoch of {} training samples, but the data has {}: resume with the same data", path,
           found.train_samples, now.train_samples);
  if (found.epoch_samples > 0 && !leaves_samples_out)
    refuse(
        "{}: stands within an epoch of {} of {} samples, but this run leaves no samples out: resume with the "
        "--prune-samples of that run",
        path, found.epoch_samples, found.train_samples);
}

}  // namespace keelson
