#include "apps/common/training.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "apps/common/blueprint.hpp"
#include "apps/common/console.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/common/machine.hpp"
#include "apps/common/members.hpp"
#include "apps/common/restart.hpp"
#include "apps/common/stacked_run.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/common/time_table.hpp"
#include "apps/common/training_targets.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/process.hpp"
#include "engine/base/ranks.hpp"
#include "engine/execute/choose_precision.hpp"
#include "engine/plan/memory_needs.hpp"
#include "engine/train/choose_grid.hpp"
#include "engine/train/choose_stages.hpp"
#include "engine/train/noise_scale.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

/// The checkpoint that --resume names.
std::optional<CheckpointReader> open_resume(const TrainingOptions& o, const Member* member, Communicator& world) {
  if (member ? !member->resumes : !o.resumes()) return std::nullopt;
  return CheckpointReader(o.resume.empty() || o.resume == "latest" ? o.out : o.resume, false, &world);
}

/// --out, or the folder of the run that a checkpoint belongs to.
fs::path folder_of(const TrainingOptions& o, const Member* member, const std::optional<CheckpointReader>& checkpoint) {
  if (member || !checkpoint || o.resume.empty() || o.resume == "latest" || o.out_option->given()) return o.out;
  const auto folder = fs::absolute(checkpoint->path()).parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : folder;
}

ReportInput report_frame(const TrainingTask& task, const TrainerOptions& t, const Launch& launch,
                         const DeviceSession& session, const ProcessGrid& grid) {
  ReportInput r;
  r.title = task.title;
  r.subtitle = fmt::format("{} parameters, trained on {}", task.graph.parameter_count(), task.training.describe());
  r.status = "running";
  r.metric = t.evaluation.metrics.at(0);
  r.target = t.target;
  r.unit = t.unit;
  r.targets_note = task.targets_note;
  r.machine = describe_machine();
  r.machine.emplace_back("Ranks and threads", launch.machine);
  r.machine.emplace_back("Process grid", grid.describe());
  r.machine.emplace_back("Devices", session.describe());
  r.machine.emplace_back("Keelson", KEELSON_VERSION);
  r.configuration.emplace_back("command", fmt::format("{} {}", launch.program, fmt::join(launch.arguments, " ")));
  for (const auto& [key, value] : t.config)
    if (!value.empty()) r.configuration.emplace_back(key, value);
  for (const std::string& reason : task.left_out) r.configuration.emplace_back("left out", reason);
  r.plan_note = "Milliseconds are medians over a few profiled steps of rank 0; empty: not measured.";
  return r;
}

void print_frame(const TrainingTask& task, const TrainerOptions& t, const Launch& launch, const DeviceSession& session,
                 const ProcessGrid& grid, const Trainer& trainer, const std::optional<CheckpointReader>& checkpoint) {
  const auto& s = trainer.state();
  fmt::print("{}: {} parameters; {}\n", s.network, task.graph.parameter_count(), session.describe());
  fmt::print("training data:   {}\n", task.training.describe());
  if (task.validation) fmt::print("validation data: {}\n", task.validation->describe());
  for (const Dataset* data : {&task.training, task.validation})
    if (const auto cost = data ? data->read_cost() : std::nullopt)
      if (const auto advice = advice_on(*cost, launch.program); !advice.empty()) fmt::print("note: {}\n", advice);
  const std::string ranks =
      counted(launch.world.size(), "rank") + (ranks_of(t.replica) == 1 ? "" : ": " + grid.describe());
  const bool relaxed = t.sync.kind != SyncMode::Kind::synchronous;
  fmt::print("{} of {}, batch {} ({}); {}; learning rate {}; {}{}\n", counted(t.epochs, "epoch"),
             counted(trainer.steps_per_epoch(), "step"), s.global_batch, ranks, s.optimizer, s.schedule,
             to_string(t.precision), relaxed ? "; synchronization " + t.sync.to_string() : "");
  if (t.replica.stage > 1)
    fmt::print("stages: {} micro-batches; the stages but the first begin with {}\n", t.micro_batches,
               fmt::join(t.stage_starts, ", "));
  if (launch.world.size() > 1)
    fmt::print("memory of rank 0: {}\nexchanges in a step: {}\n", describe_memory(trainer.executor().plan()),
               describe_exchanges(trainer.executor().plan()));
  fmt::print("{}", describe_channel_layers(task.graph, trainer.executor().plan().options()));
  // Open MPI's mpirun kills the ranks when it is interrupted; the ranks get no warning.
  const bool open_mpi = launch.world.size() > 1 && !environment("OMPI_COMM_WORLD_SIZE").empty();
  const auto mpirun = open_mpi ? find_ancestor({"prterun", "mpirun", "mpiexec", "orterun"}) : 0;
  if (mpirun != 0) fmt::print("Ctrl-C on mpirun kills the ranks; to end with a checkpoint: kill -USR1 {}\n", mpirun);
  if (checkpoint) {
    auto before = checkpoint->state().config;
    before["global-batch"] = std::to_string(checkpoint->state().global_batch);
    if (const auto changes = task.options.changes(before); !changes.empty())
      fmt::print("other options than those of the checkpoint: {}\n", fmt::join(changes, ", "));
  }
  std::fflush(stdout);
}

/// If the memory of the device is too small, refuses with a message that says which batch fits.
std::unique_ptr<Trainer> make_trainer(const TrainingTask& task, const Dataset& training, const Dataset* validation,
                                      const DeviceSession& session, const TrainerOptions& t,
                                      std::optional<Parameters>& parameters) {
  const bool whole_parameters = ranks_of(t.replica) == 1 || (t.replica.space > 1 && t.whole_parameters());
  if (whole_parameters) require_memory_for_parameters(task.graph, *session.context, *t.optimizer);
  try {
    parameters.emplace(task.graph, *session.context, t.seed);
    return std::make_unique<Trainer>(task.graph, *parameters, training, validation, session.ranks.get(), t);
  } catch (const OutOfMemory&) {
    parameters.reset();
  }
  PlanOptions plan = t.plan();
  plan.exchange = {};
  Communicator* const ranks = session.ranks.get();
  const ProcessGrid grid = training_grid(ranks, t.replica);
  plan.grid = &grid;
  if (ranks && ranks->survives_losses()) plan.whole_parameters = true;
  refuse("{}. Give --batch (or --global-batch) accordingly, start more ranks, or raise --memory-limit if it is set",
         describe_memory_needs(task.graph, *session.context, plan));
}

/// Bytes of the samples that a rank would keep in a cache without bounds.
std::int64_t bytes_of_rank(const TrainingTask& task, const ProcessGrid& grid) {
  const std::int64_t ranks = grid.extent(ProcessGrid::Axis::data);
  const auto share = [&](const Dataset& data) { return (data.size() + ranks - 1) / ranks * (data.stored_bytes() + 1); };
  return share(task.training) + (task.validation ? share(*task.validation) : 0);
}

std::string command_to_continue(const Launch& launch, const RunFolder& folder) {
  return fmt::format("to continue: {} train --resume {}", launch.program, folder.path.string());
}

/// The message after a signal. Open MPI's mpirun also sends a signal when another rank has died.
std::string signalled(const Launch& launch, const RunFolder& folder) {
  return fmt::format(
      "\nsignalled to end: writes a checkpoint after this step if the launcher leaves enough time, else the last "
      "checkpoint stays; {}\n",
      command_to_continue(launch, folder));
}

/// Stores the number of threads: sums within a rank are divided among threads, so bits depend on their number. Throws
/// InputError if the run that is resumed had another number.
void record_threads(int threads, TrainerOptions& t, const std::optional<CheckpointReader>& checkpoint) {
  const std::string key = "threads", now = std::to_string(threads);
  t.config[key] = now;
  if (!checkpoint) return;
  const auto& before = checkpoint->state().config;
  const auto found = before.find(key);
  if (found != before.end() && found->second != now)
    refuse("{}: was trained with --reproducible and {} threads per rank, but this rank has {}: set OMP_NUM_THREADS={}",
           checkpoint->path().string(), found->second, now, found->second);
}

/// The observers that write and print, on the first rank.
struct FirstRank {
  RunRecorder recorder;
  Console console;
  RestartNotifier restart;
  std::optional<MlperfLog> mlperf;
};

/// Trains. If the run cannot go on after a loss of ranks, the error says how to continue.
StopReason run(Trainer& trainer, const std::vector<TrainObserver*>& observers,
               const Observers::Maker& make_rank0_observers, const Launch& launch, const RunFolder& folder) {
  try {
    return trainer.run(observers, make_rank0_observers).reason;
  } catch (const RanksLost& error) {
    const std::string hint = trainer.last_checkpoint().empty()
                                 ? "this run has no checkpoint to continue from: start it again"
                                 : command_to_continue(launch, folder);
    if (!launch.restart) fail("{}; {}", error.what(), hint);
    launch.restart->keep(trainer, hint);
    throw;
  }
}

ExitCode exit_code(StopReason reason) {
  const bool cut = reason == StopReason::interrupted || reason == StopReason::time_limit;
  return cut ? ExitCode::interrupted : ExitCode::done;
}

}  // namespace

TrainingRun::TrainingRun(const TrainingOptions& options, Launch& launch)
    : options_(options),
      launch_(launch),
      grid_(requested_grid(options.exchange.grid, launch.world.size()).value_or(ProcessGrid::Extents{})) {
  // The collective calls below depend on --resume.
  compare_values(launch.world, {{"--resume", options.resumes() ? "given" : "not given"}}, "options");
  if (!options.mlperf.file.empty() && options.resumes())
    refuse("--mlperf-log with --resume: MLPerf's time is that of a run from its beginning; give one of them");
  if (launch.restart) start_ = launch.restart->start;
  if (launch.member) start_ = launch.member->start;
  anew_ = launch.restart && launch.restart->begun(launch.world);
  checkpoint_ = anew_ ? launch.restart->open_checkpoint(launch.world) : std::nullopt;
  if (!checkpoint_) checkpoint_ = open_resume(options, launch.member, launch.world);
  folder_.path = anew_ ? launch.restart->folder.path : folder_of(options, launch.member, checkpoint_);
  if (!anew_ && !options.finds_rates) folder_.check(launch.world, resumed_from(), options.overwrite);
  if (!anew_ && !options.mlperf.file.empty())
    on_first_rank(&launch.world, [&] { MlperfLog::check_place(options.mlperf, options.overwrite); });
  run_start_ = std::chrono::steady_clock::now();
}

const std::optional<CheckpointReader>& TrainingRun::model() const {
  return checkpoint_ || !launch_.member ? checkpoint_ : launch_.member->other;
}

fs::path TrainingRun::resumed_from() const { return checkpoint_ ? checkpoint_->path() : fs::path(); }

void TrainingRun::fill(Subcommand& subcommand, const NetworkFamily& family, bool other_data, const RunOptions& o,
                       const Recipes& recipes) const {
  if (!model()) {
    if (!o.recipe.empty()) subcommand.fill(find_recipe(recipes, o.recipe), "recipe " + o.recipe);
    return;
  }
  check_family(*model(), family);
  auto stored = model()->state().config;
  stored["global-batch"] = std::to_string(model()->state().global_batch);
  if (!checkpoint_) {
    stored.erase("seed");
    for (const auto& [name, value] : launch_.member->other_common) stored[name] = value;
  }
  for (const char* data : {"train", "validation"})
    if (other_data || subcommand.given(data)) stored.erase(data);
  subcommand.fill(stored, model()->path().string());
}

void TrainingRun::complete(Subcommand& subcommand, const NetworkFamily& family, bool other_data, const RunOptions& o,
                           const Recipes& recipes) const {
  Member* const member = launch_.member;
  if (member) subcommand.override_with({}, "");
  fill(subcommand, family, other_data, o, recipes);
  if (!member || member->resumes || member->record.options.empty()) return;
  // Once more with the options of the member's design, which may also decide what a recipe's options are.
  const Config common = subcommand.values();
  member->reset();
  subcommand.override_with(member->record.options, "the options of " + member->folder.string());
  fill(subcommand, family, other_data, o, recipes);
  const Config own = subcommand.values();
  for (const auto& [name, value] : common)
    if (own.at(name) != value) member->record.common[name] = value;
  // A member that goes on has a global batch, also where each rank was given a batch.
  if (member->record.options.contains("batch")) member->record.common["global-batch"] = common.at("global-batch");
  on_first_rank(&launch_.world, [&] { write_member(member->record, member->folder); });
}

TrainerOptions TrainingRun::trainer_options(const OptimizerOptions& o) {
  TrainerOptions t;
  if (options_.exchange.grid.is_auto())
    grid_ = fewest_parts(launch_.world.size(), o.global_batch > 0 ? o.global_batch : o.batch * launch_.world.size());
  t.batch = batch_per_replica(o, grid_);
  t.micro_batches = decide_micro_batches(options_.exchange, t.batch, grid_.stage);
  t.replica = grid_;
  t.epochs = o.epochs;
  t.seed = o.seed;
  t.bag = o.bag;
  t.prune = prune_options(o);
  t.optimizer = make_optimizer(o);
  t.schedule = make_schedule(o);
  t.sync = SyncMode::parse(o.sync);
  if (o.apoptosis != "off") apoptosis_ = ApoptosisOptions::of(o.apoptosis);
  if (!o.grow.empty()) {
    t.texts[blueprint_text] = blueprint(o.grow);
    growth_ = parse_blueprint(t.texts[blueprint_text], o.grow);
    blueprint_path_ = o.grow;
  }
  t.max_steps = options_.max_steps;
  t.time_limit = options_.time_limit;
  t.start = start_;
  t.interrupted = [] { return Interrupt::requested(); };
  t.checkpoints = {.folder = folder_.checkpoints(),
                   .keep = options_.keep,
                   .epochs = options_.checkpoint_every,
                   .steps = options_.checkpoint_steps};
  t.max_failures = options_.max_failures;
  t.restart_on_loss = launch_.restart && launch_.restart->spares > 0;
  t.threads = decide(options_.loader, launch_);
  check(options_.cache);
  t.cache = options_.cache;
  t.progress = progress_by(options_.exchange);
  t.recompute = options_.recompute;
  t.noise_scale = options_.noise_scale;
  return t;
}

/// Collective.
void TrainingRun::choose_precision_and_grid(const TrainingTask& task, Context& context, Communicator& world,
                                            TrainerOptions& t) const {
  const bool chooses_grid = options_.exchange.grid.is_auto();
  const ProcessGrid grid(world, grid_);
  if (!chooses_grid) require_parts(task.graph, grid);
  t.precision = choose_precision(task.precision, task.graph, context,
                                 {.batch = t.batch, .micro_batch_count = t.micro_batches, .grid = &grid});
  if (chooses_grid) choose_the_grid(task, context, world, t);
  t.stage_starts = choose_stage_starts(task.graph, context, world, t.replica.stage, t.plan());
}

/// Collective.
void TrainingRun::choose_the_grid(const TrainingTask& task, Context& context, Communicator& world,
                                  TrainerOptions& t) const {
  const std::int64_t global_batch = t.batch * grid_.data;
  const GridChoice choice = choose_grid(task.graph, context, world, global_batch, t.plan());
  if (world.rank() == 0) fmt::print("{}", table_of(choice, world.size(), global_batch));
  t.batch = choice.grid().batch;
  t.micro_batches = choice.grid().micro_batches;
  t.replica = choice.grid().extents;
  t.threads = decide(options_.loader, launch_);
}

ExitCode TrainingRun::train_in_stack(const TrainingTask& task, TrainerOptions t) const {
  StackedRun::check(options_, t, apoptosis_.has_value(), growth_.has_value(), task.precision);
  StackedRun& stack = *launch_.member->stack;
  const DeviceSession& session = stack.open(options_.device, launch_);
  t.precision = choose_precision(task.precision, task.graph, *session.context, {.batch = t.batch});
  t.config["precision"] = to_string(t.precision);
  auto report = report_frame(task, t, launch_, session, ProcessGrid(*session.ranks, {}));
  Interrupt::install();
  return stack.add(task, t, folder_, resumed_from(), std::move(report), options_, launch_);
}

ExitCode TrainingRun::train(const TrainingTask& task, TrainerOptions t) const {
  if (!growth_) return train_network(task, task.graph, std::move(t));
  const Graph narrow = starting_network(task.graph, *growth_, "'" + blueprint_path_ + "'");
  TrainingTask starting{narrow,         task.training, task.validation, task.in_memory,
                        task.precision, task.title,    task.options};
  starting.targets = task.targets;
  starting.targets_note = task.targets_note;
  starting.left_out = task.left_out;
  starting.mlperf = task.mlperf;
  starting.sections = task.sections;
  return train_network(starting, task.graph, std::move(t));
}

ExitCode TrainingRun::train_network(const TrainingTask& task, const Graph& whole, TrainerOptions t) const {
  compare_values(launch_.world, dashed(task.options.common_values()), "options");
  check(options_.exchange, task.precision);
  if (launch_.member && launch_.member->stack) return train_in_stack(task, std::move(t));
  const DeviceSession session = open_device(options_.device, launch_);
  auto& world = *session.ranks;
  t.exchange = decide(options_.exchange, world);
  choose_precision_and_grid(task, *session.context, world, t);
  const ProcessGrid grid = training_grid(&world, t.replica);
  check(t.cache);
  check_memory(t.cache, bytes_of_rank(task, grid), world);
  t.config["precision"] = to_string(t.precision);
  if (t.exchange.reproducible)
    record_threads(session.context->device().current_instance().concurrency(), t, checkpoint_);
  if (world.rank() == 0 && session.context->device().is_asynchronous()) {
    fmt::print(
        stderr,
        "compiling the network; algorithms that were not timed before on this model of GPU are timed: up to minutes\n");
    std::fflush(stderr);
  }
  if (options_.finds_rates)
    return search_rates({task.graph, task.training, task.title, options_.rates, folder_.path}, session, t);
  const bool logs = task.mlperf && !options_.mlperf.file.empty();
  if (logs) check(options_.mlperf, *task.mlperf);
  Restart alone;  // for a run without spare ranks
  Restart& restart = launch_.restart ? *launch_.restart : alone;
  std::optional<FolderLock>& lock = restart.lock;  // on the first rank
  t.checkpoints.before_writing = [&] { lock->require(); };
  const auto trace = begin_trace(options_.trace, launch_.world);  // must outlive the objects that it records
  std::optional<Parameters> parameters;
  const bool shares = launch_.member && !task.in_memory;
  if (shares)
    launch_.member->data->open(task.training, task.validation);
  else if (launch_.member)
    launch_.member->data->decline();
  const Dataset& training = shares ? launch_.member->data->training() : task.training;
  const Dataset* const validation_data = shares ? launch_.member->data->validation() : task.validation;
  let_network_change(task, whole, training, world, t);
  const auto made = make_trainer(task, training, validation_data, session, t, parameters);
  Trainer& trainer = *made;
  if (checkpoint_) trainer.resume(*checkpoint_);
  Interrupt::install(world.rank() == 0 ? signalled(launch_, folder_) : "");
  on_first_rank(&world, [&] {
    restart.take_lock(folder_);
    const bool goes_on = folder_.holds(resumed_from());
    // Another run may have used the folder in the meantime.
    if (!goes_on && !anew_) folder_.require_free(options_.overwrite, resumed_from());
    lock->require();
    folder_.prepare(goes_on);
    restart.complete_checkpoints(options_.keep);
    if (logs && !anew_)
      MlperfLog::begin(options_.mlperf, *task.mlperf, launch_, start_, run_start_, task.training.size(),
                       task.validation ? task.validation->size() : 0);
  });
  restart.begun(world);
  std::optional<TrainingTargets> targets;
  std::vector<TrainObserver*> observers;  // on every rank
  if (task.targets) observers.push_back(&targets.emplace(training, t, &world, *task.targets->baseline));
  const auto frame = report_frame(task, t, launch_, session, grid);
  const Member* const member = launch_.member;
  if (world.rank() == 0 && (!member || member->speaks))
    print_frame(task, t, launch_, session, grid, trainer, checkpoint_);
  std::optional<FirstRank> first;
  const auto make_first = [&]() -> std::vector<TrainObserver*> {
    restart.take_lock(folder_);  // takes over from a rank 0 that was lost
    const auto every =
        options_.log_every > 0 ? options_.log_every : std::max<std::int64_t>(1, trainer.steps_per_epoch() / 100);
    first.emplace(RunRecorder(folder_, *lock, every, trainer, frame, task.targets, task.sections),
                  Console(stdout, t, trainer.steps_per_epoch(), task.targets, member ? member->prefix() : ""),
                  RestartNotifier(restart), std::nullopt);
    first->restart.set_observers({&first->recorder, &first->console});
    std::vector<TrainObserver*> all{&first->recorder, &first->console, &first->restart};
    if (logs) all.push_back(&first->mlperf.emplace(options_.mlperf, task.mlperf->metric));
    return all;
  };
  const StopReason reason = run(trainer, observers, make_first, launch_, folder_);
  const auto code = exit_code(reason);
  if (launch_.member) launch_.member->tell(trainer.state(), reason, t);
  if (launch_.member) return code;
  end_trace(options_.trace, trace.get(), launch_.world, first ? stdout : nullptr);
  if (!first) return code;
  if (trainer.run_times()) fmt::print("{}", time_table(*trainer.run_times()));
  if (trainer.samples_read()) fmt::print("{}\n", describe(*trainer.samples_read()));
  if (t.noise_scale > 0) fmt::print("{}\n", describe(noise_scale(trainer.state()), trainer.state().global_batch));
  if (!trainer.progress_finding().empty()) fmt::print("{}\n", trainer.progress_finding());
  if (!trainer.lost().empty())
    fmt::print("{} of {} were lost; the parameters of all ranks that are left are equal\n", trainer.lost().size(),
               counted(static_cast<std::int64_t>(trainer.lost().size()) + world.size(), "rank"));
  if (fs::exists(folder_.report())) fmt::print("report: {}\n", folder_.report().string());
  if (code == ExitCode::interrupted) fmt::print("{}\n", command_to_continue(launch_, folder_));
  return code;
}

}  // namespace keelson::app
