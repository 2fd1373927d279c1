#include "engine/train/trainer.hpp"

#include "engine/base/counted.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

std::optional<ProcessGrid> grid_of(Communicator* c) {
  if (!c) return std::nullopt;
  return std::optional<ProcessGrid>(std::in_place, *c);
}

int ranks_of(const Communicator* c) { return c ? c->size() : 1; }

std::vector<std::string> stored_moments(const TrainerOptions& o) {
  auto names = moment_names(*o.optimizer);
  if (o.sync.kind == SyncMode::Kind::lag) names.emplace_back("lagged_gradient");
  return names;
}

/// Without the paths, which may differ.
std::string describe_data(const Dataset& data) {
  return fmt::format("{} [{:016x}]", counted(data.size(), "sample"), data.digest());
}

/// The recurrent states of the network, of all ranks together.
std::map<std::string, Shape> states_of(const Graph& graph, std::int64_t global_batch) {
  std::map<std::string, Shape> states;
  for (const auto& node : graph.nodes()) {
    if (!node.is_state) continue;
    Shape shape = node.shape.shape;
    shape[0] = global_batch;
    states[node.name] = shape;
  }
  return states;
}

/// What must be alike on all ranks for training to mean anything. `threads`: of this rank.
void compare_runs(const Dataset& training, const Dataset* validation, const TrainerOptions& o,
                  Communicator* communicator, int threads) {
  if (ranks_of(communicator) == 1) return;
  compare_values(
      *communicator,
      {{"training data", describe_data(training)}, {"validation data", validation ? describe_data(*validation) : ""}},
      "data", "let all ranks see the same files");
  std::map<std::string, std::string> values{
      {"network", o.network},
      {"batch", std::to_string(o.batch)},
      {"epochs", std::to_string(o.epochs)},
      {"step limit", std::to_string(o.max_steps)},
      {"time limit", fmt::format("{}", o.time_limit)},
      {"target", fmt::format("{}", o.target)},
      {"seed", std::to_string(o.seed)},
      {"shuffling", o.shuffle ? "on" : "off"},
      {"sample transform", o.transform ? o.transform->describe() : "none"},
      {"precision", std::string(to_string(o.precision))},
      {"reproducible sums", o.exchange.reproducible ? "on" : "off"},
      {"optimizer", o.optimizer->to_string()},
      {"synchronization", o.sync.to_string()},
      {"learning rate", o.schedule.to_string()},
      {"checkpoints",
       fmt::format("every {}, every {}", counted(o.checkpoint_epochs, "epoch"), counted(o.checkpoint_steps, "step"))}};
  if (o.exchange.reproducible) values["threads"] = std::to_string(threads);
  for (const auto& [name, text] : o.texts) values[name] = fmt::format("{:016x}", fnv1a(text.data(), text.size()));
  compare_values(*communicator, values, "options");
}

}  // namespace

LoaderOptions Trainer::loader_options() const {
  Device& device = parameters_.context().device();
  LoaderOptions l;
  l.batch = options_.batch;
  l.rank = communicator_ ? communicator_->rank() : 0;
  l.ranks = ranks_of(communicator_);
  l.seed = options_.seed;
  l.shuffle = options_.shuffle;
  l.transform = options_.transform;
  l.threads = options_.loader_threads;
  l.prefetch = options_.prefetch;
  l.cpus = options_.cpus;
  l.codes = converts_batches(device);
  l.allocate = batch_memory(device);
  return l;
}

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::epochs_done:
      return "all epochs done";
    case StopReason::max_steps:
      return "step limit reached";
    case StopReason::target_reached:
      return "target reached";
    case StopReason::time_limit:
      return "time limit";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

void Trainer::check_sizes(std::int64_t samples, std::int64_t batch, int ranks, const std::string& data) {
  if (batch < 1) refuse("a batch of {} was asked for; it must hold at least one sample per rank", batch);
  if (samples < ranks)
    refuse("{} for {} ({}): start fewer ranks or give more data", counted(ranks, "rank"),
           counted(samples, "training sample"), data);
  if (samples < batch * ranks)
    refuse(
        "a batch of {} ({} per rank on {}) is larger than the training data ({}): give a smaller batch or more "
        "data",
        batch * ranks, batch, counted(ranks, "rank"), data);
}

Trainer::Trainer(const Graph& graph, Parameters& parameters, const Dataset& training, const Dataset* validation,
                 Communicator* communicator, TrainerOptions options)
    : graph_(&graph),
      parameters_(parameters),
      training_((compare_runs(training, validation, options, communicator,
                              parameters.context().device().current_instance().concurrency()),
                 check_sizes(training.size(), options.batch, ranks_of(communicator), training.describe()),
                 require_all_inputs(graph, training), training)),
      communicator_(communicator),
      options_(std::move(options)),
      moments_(stored_moments(options_)),
      grid_(grid_of(communicator)),
      local_((check_sync(), updates_locally(0))),
      executor_(make_executor(graph)),
      loader_(std::in_place, training, loader_options()),
      writer_(CheckpointFolder(options_.checkpoints, options_.keep)),
      vote_(communicator, options_.start, options_.time_limit, options_.interrupted),
      runs_ahead_(parameters.context().device().is_asynchronous()) {
  if (options_.max_failures < 0) options_.max_failures = ranks_of(communicator) / 2;
  feed_.emplace(training.fields(), loader_->coded(), *executor_, parameters.context());
  make_synchronizer();
  const bool alike = options_.sync.kind == SyncMode::Kind::synchronous || options_.sync.kind == SyncMode::Kind::lag;
  progress_.emplace(communicator,
                    options_.progress == ProgressBy::measured && !alike ? ProgressBy::calls : options_.progress,
                    options_.cpus);
  if (validation) {
    auto e = options_.evaluation;
    e.batch = options_.batch;
    e.precision = options_.precision;
    e.one_by_one = options_.exchange.reproducible;
    e.threads = options_.loader_threads;
    e.prefetch = options_.prefetch;
    e.cpus = options_.cpus;
    e.unit = options_.unit;
    evaluator_ = std::make_unique<Evaluator>(graph, parameters, *validation, communicator, e);
  }
  state_.network = options_.network;
  state_.config = options_.config;
  state_.texts = options_.texts;
  state_.topology = Topology(graph).to_text();
  state_.seed = options_.seed;
  state_.global_batch = options_.batch * ranks_of(communicator);
  state_.train_samples = training.size();
  state_.world_size = ranks_of(communicator);
  state_.optimizer = options_.optimizer->to_string();
  state_.schedule = options_.schedule.to_string();
}

void Trainer::check_resumable(const CheckpointReader& reader) const {
  const auto kind = [](const std::string& optimizer) { return optimizer.substr(0, optimizer.find(' ')); };
  const auto path = reader.path().string();
  const RunState &found = reader.state(), &now = state_;
  if (kind(found.optimizer) != kind(now.optimizer))
    refuse("{}: was trained with the optimizer '{}', not '{}': resume with that optimizer", path, found.optimizer,
           now.optimizer);
  if (found.seed != now.seed)
    refuse("{}: was trained with seed {}, not {}: resume with that seed", path, found.seed, now.seed);
  if (found.step_in_epoch > 0 && found.global_batch != now.global_batch)
    refuse(
        "{}: stands within an epoch of batches of {} samples, but {} ranks x {} make {}: resume with ranks x batch = "
        "{}",
        path, found.global_batch, now.world_size, options_.batch, now.global_batch, found.global_batch);
  if (found.step_in_epoch > 0 && found.train_samples != now.train_samples)
    refuse("{}: stands within an epoch of {} training samples, but the data has {}: resume with the same data", path,
           found.train_samples, now.train_samples);
}

void Trainer::resume(const CheckpointReader& reader) {
  settle();
  // Everything is checked before anything changes.
  check_resumable(reader);
  auto graph = network_of(reader);
  std::optional<Parameters> parameters;
  if (graph) parameters.emplace(*graph, parameters_.context(), parameters_.seed());
  const bool within = reader.state().step_in_epoch > 0;
  reader.check(options_.network, parameters ? *parameters : parameters_, moments_,
               within ? states_of(graph ? *graph : *graph_, state_.global_batch) : std::map<std::string, Shape>());
  if (graph) set_network(std::move(*graph), std::move(*parameters));
  adopt_mode(reader.state().epoch);
  auto loaded = reader.load_checked(parameters_, moments_);
  const auto& now = state_;
  restore_states(loaded);
  if (options_.precision == Precision::fp16)
    executor_->set_loss_scale({.scale = static_cast<float>(loaded.loss_scale),
                               .good_steps = static_cast<std::int32_t>(loaded.good_steps),
                               .skipped = static_cast<std::int32_t>(loaded.skipped_steps)});
  loaded.carried.clear();
  loaded.config = now.config;
  loaded.texts = now.texts;
  loaded.topology = now.topology;
  loaded.global_batch = now.global_batch;
  loaded.train_samples = now.train_samples;
  loaded.world_size = now.world_size;
  loaded.optimizer = now.optimizer;
  loaded.schedule = now.schedule;
  state_ = loaded;
  make_synchronizer();  // of the parameters that are there now
  begun_ = owns_folder_ = false;
  stop_.reset();
  last_epoch_.reset();
  saved_step_ = state_.step;
  resumed_from_ = last_saved_ = reader.path();
}

}  // namespace keelson
