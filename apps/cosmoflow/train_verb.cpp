#include <fmt/ranges.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "apps/common/console.hpp"
#include "apps/common/options.hpp"
#include "apps/common/run_folder.hpp"
#include "apps/cosmoflow/task.hpp"
#include "apps/cosmoflow/verbs.hpp"
#include "backends/registry.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/graph/precision.hpp"
#include "engine/train/machine.hpp"

namespace keelson::cosmoflow {
namespace fs = std::filesystem;
namespace {

struct TrainOptions {
  RunOptions run;
  OptionTable table;
  std::string data, out = "run", resume;
  CLI::Option* resume_given = nullptr;
  CLI::Option* out_given = nullptr;
  bool overwrite = false, check_data = true;
  std::int64_t max_steps = -1, checkpoint_every = 1, checkpoint_steps = 0, log_every = 0;
  int keep = 2, loader_threads = 1, prefetch = 2;
  double time_limit = 0;
};

/// The checkpoint to continue from, if any; also says which folder the run then has.
std::optional<fs::path> find_resume(TrainOptions& o) {
  if (o.resume_given->count() == 0) return std::nullopt;
  if (o.resume.empty() || o.resume == "latest") return find_checkpoint(o.out, false);
  auto checkpoint = find_checkpoint(o.resume, false);
  if (o.out_given->count() == 0) {
    const auto folder = fs::absolute(checkpoint).parent_path();
    o.out = (folder.filename() == "checkpoints" ? folder.parent_path() : folder).string();
  }
  return checkpoint;
}

/// Fills what the user left out: from the checkpoint, or from the recipe but for what the user's own choices replace.
void complete(TrainOptions& o, const std::optional<fs::path>& checkpoint) {
  if (checkpoint) {
    const auto state = read_run_state(*checkpoint);
    auto stored = state.config;
    if (!o.data.empty() || o.table.given("train")) stored.erase("train");
    if (!o.data.empty() || o.table.given("validation")) stored.erase("validation");
    stored["global-batch"] = std::to_string(state.global_batch);  // whatever the number of ranks now
    if (o.table.given("batch")) stored.erase("global-batch");
    if (o.table.given("schedule")) stored.erase("decay");
    o.table.fill(stored, checkpoint->string());
  } else if (!o.run.recipe.empty()) {
    auto preset = recipe(o.run.recipe);
    if (o.table.given("batch")) preset.erase("global-batch");
    if (o.table.given("global-batch")) preset.erase("batch");
    if (o.table.given("schedule")) preset.erase("decay");
    if (o.table.given("net")) preset.erase("l2");
    o.table.fill(preset, "recipe " + o.run.recipe);
  }
  if (!o.data.empty() && o.run.train.empty()) o.run.train = split_path(o.data, {"train"}, "--train");
  if (!o.data.empty() && o.run.validation.empty())
    o.run.validation = split_path(o.data, {"validation", "val"}, "--validation");
  if (o.run.train.empty())
    refuse("no training data: give --data DIR (with train/ and validation/ in it) or --train PATH");
}

Config stored_config(const TrainOptions& o, std::int64_t size) {
  auto c = o.table.values();
  c["train"] = fs::absolute(o.run.train).string();
  c["validation"] = o.run.validation.empty() ? "" : fs::absolute(o.run.validation).string();
  c["size"] = std::to_string(size);
  return c;
}

std::string title(const RunOptions& o, std::int64_t size) {
  return fmt::format("CosmoFlow, {} network, {}³ cells", o.net == "paper" ? "SC18 paper's" : "MLPerf HPC's", size);
}

ReportInput report_frame(const TrainOptions& o, const app::Session& session, const Context& context, const Graph& graph,
                         const UniverseDataset& data, const Config& config, const MetricSpec& metric) {
  ReportInput r;
  r.title = title(o.run, data.fields()[0].shape[1]);
  r.subtitle = fmt::format("{} parameters, trained on {}", graph.parameter_count(), data.describe());
  r.status = "running";
  r.metric = metric;
  r.target = o.run.target_mae;
  r.targets_note =
      metric.kind == MetricSpec::Kind::relative
          ? "Validation samples in physical units; errors are relative."
          : "Validation samples in physical units; errors are those of the targets as trained on, about [-1, 1].";
  r.machine = describe_machine();
  r.machine.emplace_back("Ranks and threads", session.machine);
  r.machine.emplace_back("Devices", context.describe());
  r.machine.emplace_back("Keelson", KEELSON_VERSION);
  r.configuration.emplace_back("command", fmt::format("{} {}", session.program, fmt::join(session.arguments, " ")));
  for (const auto& [key, value] : config)
    if (!value.empty()) r.configuration.emplace_back(key, value);
  r.plan_note = "Milliseconds are medians over a few profiled steps of rank 0; empty: not measured.";
  return r;
}

void print_frame(const app::Session& session, const Context& context, const Graph& graph, const RunOptions& run,
                 const UniverseDataset& data, const UniverseDataset* validation, const Trainer& trainer) {
  fmt::print("{}: {} parameters; {}\n", trainer.state().network, graph.parameter_count(), context.describe());
  fmt::print("training data:   {}\n", data.describe());
  if (validation) fmt::print("validation data: {}\n", validation->describe());
  fmt::print("{} epochs of {} steps, batch {} ({} ranks); {}; learning rate {}; {}\n", run.epochs,
             trainer.steps_per_epoch(), trainer.state().global_batch, session.world.size(), trainer.state().optimizer,
             trainer.state().schedule, trainer.state().config.at("precision"));
  std::fflush(stdout);
}

ExitCode train(TrainOptions& o, app::Session& session) {
  const auto start = std::chrono::steady_clock::now();
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit then is an error like a full disk
  Interrupt::install();
  auto& world = session.world;
  const auto checkpoint = find_resume(o);
  complete(o, checkpoint);
  check(o.run);
  const app::RunFolder folder{o.out};
  folder.check(world, checkpoint.has_value(), o.overwrite);

  const auto data = open_data(o.run, o.run.train);
  const auto validation = o.run.validation.empty() ? nullptr : open_data(o.run, o.run.validation);
  const auto graph = make_network(o.run, *data);
  const auto metric = make_metric(o.run, *data);
  TrainerOptions t;
  t.batch = app::batch_per_rank(o.run, world.size());
  Trainer::check_sizes(data->size(), t.batch, world.size(), data->describe());
  t.network = network_name(o.run);
  t.config = stored_config(o, data->fields()[0].shape[1]);
  t.epochs = o.run.epochs;
  t.max_steps = o.max_steps;
  t.seed = o.run.seed;
  t.shuffle = o.run.shuffle;
  t.augment = o.run.augment;
  t.optimizer = make_optimizer(o.run);
  t.schedule = app::make_schedule(o.run);
  t.target = o.run.target_mae;
  t.time_limit = o.time_limit;
  t.start = start;
  t.interrupted = [] { return Interrupt::requested(); };
  t.checkpoints = folder.checkpoints();
  t.keep = o.keep;
  t.checkpoint_epochs = o.checkpoint_every;
  t.checkpoint_steps = o.checkpoint_steps;
  t.loader_threads = o.loader_threads;
  t.prefetch = o.prefetch;
  t.cpus = session.placement.cpus;
  t.evaluation.metric = metric;

  if (o.check_data) {
    check_finite(*data, world);
    if (validation) check_finite(*validation, world);
  }
  const auto context = backends::make_context();
  t.compute = choose_precision(o.run.precision, graph, *context, {.batch = t.batch, .communicator = &world});
  t.config["precision"] = precision_name(t.compute);
  Parameters parameters(graph, *context, o.run.seed);
  Trainer trainer(graph, parameters, *data, validation.get(), &world, t);
  if (checkpoint) trainer.resume(*checkpoint);

  std::optional<app::Console> console;
  std::optional<app::RunRecorder> recorder;
  std::vector<TrainObserver*> observers;
  if (world.rank() == 0) {
    folder.prepare(checkpoint.has_value());
    print_frame(session, *context, graph, o.run, *data, validation.get(), trainer);
    const auto every = o.log_every > 0 ? o.log_every : std::max<std::int64_t>(1, trainer.steps_per_epoch() / 100);
    recorder.emplace(folder, every, trainer, report_frame(o, session, *context, graph, *data, t.config, metric));
    console.emplace(stdout, t, trainer.steps_per_epoch());
    observers = {&*recorder, &*console};
  }
  const auto result = trainer.run(observers);
  if (world.rank() == 0) fmt::print("report: {}\n", folder.report().string());
  const bool cut = result.reason == StopReason::interrupted || result.reason == StopReason::time_limit;
  if (cut && world.rank() == 0)
    fmt::print("to continue: {} train --resume {}\n", session.program, folder.path.string());
  return cut ? ExitCode::interrupted : ExitCode::done;
}

}  // namespace

void define_train(app::CommandLine& line) {
  auto o = std::make_shared<TrainOptions>();
  auto& v = line.verb("train", "Train a network on universes; data-parallel over the ranks of mpirun or srun",
                      [o](app::Session& session) { return train(*o, session); });
  app::option_without_default(v, "--data", o->data, "Folder with train/ and validation/ in it", "DIR");
  o->out_given = app::option(v, "--out", o->out, "The run's folder: checkpoints/, metrics.jsonl, report.html", "DIR");
  o->resume_given =
      app::option_without_default(
          v, "--resume", o->resume,
          "Continue bit for bit from a checkpoint, or from the newest of a run; without a value: of --out. "
          "Options that are not given are those of the checkpoint",
          "[PATH|latest]")
          ->expected(0, 1);
  v.add_flag("--overwrite", o->overwrite, "Replace the run that --out holds");
  app::option(v, "--max-steps", o->max_steps,
              "End after this many steps in all; 0: only write the initial checkpoint; -1: no limit", "STEPS");
  app::option(v, "--time-limit", o->time_limit, "End in time, with a checkpoint and exit code 75; 0: none", "SECONDS")
      ->check(CLI::NonNegativeNumber);
  app::option(v, "--checkpoint-every", o->checkpoint_every,
              "Checkpoint every so many epochs; 0: only the best and the last", "EPOCHS")
      ->check(CLI::NonNegativeNumber);
  app::option(v, "--checkpoint-steps", o->checkpoint_steps, "Checkpoint every so many steps besides; 0: not", "STEPS")
      ->check(CLI::NonNegativeNumber);
  app::option(v, "--keep", o->keep, "Checkpoints to keep besides the best", "N")->check(CLI::PositiveNumber);
  app::option(v, "--log-every", o->log_every, "Steps between records in metrics.jsonl; 0: a hundred records per epoch",
              "STEPS")
      ->check(CLI::NonNegativeNumber);
  app::flag(v, "--check-data", o->check_data,
            "Read floating-point data once before training, to refuse NaN and infinity");
  app::option(v, "--loader-threads", o->loader_threads, "Decoding threads per rank", "N")->check(CLI::PositiveNumber);
  app::option(v, "--prefetch", o->prefetch, "Batches decoded ahead", "N")->check(CLI::PositiveNumber);
  declare(o->run, v, o->table);
}

}  // namespace keelson::cosmoflow
