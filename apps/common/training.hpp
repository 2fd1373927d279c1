#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/common/exchange_options.hpp"
#include "apps/common/loader_options.hpp"
#include "apps/common/members.hpp"
#include "apps/common/mlperf_log.hpp"
#include "apps/common/run_folder.hpp"
#include "apps/common/run_options.hpp"
#include "apps/common/trace_option.hpp"
#include "engine/graph/graph.hpp"
#include "engine/train/apoptosis.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/growth.hpp"
#include "engine/train/rate_range.hpp"

namespace keelson::app {

/// The user's options for a training run on this machine.
struct TrainingOptions {
  std::string out = "run", resume;
  Option *out_option = nullptr, *resume_option = nullptr;  ///< --resume: null for a search for learning rates
  bool overwrite = false;
  std::int64_t max_steps = -1, checkpoint_every = 1, checkpoint_steps = 0, log_every = 0, noise_scale = 0;
  int keep = 2, max_failures = -1, spares = 0;
  LoaderThreads loader = undecided_threads;
  CacheOptions cache;
  RequestedExchange exchange;
  bool recompute = false;
  double time_limit = 0;
  DeviceOptions device;
  TraceOption trace;
  MemberOptions members;
  MlperfOptions mlperf;  ///< declared by the programs that have such a benchmark
  /// The subcommand `lr-range`: nothing is trained, but learning rates are tried.
  bool finds_rates = false;
  RateRangeOptions rates = {.keep_parameters = false};  ///< of that subcommand

  bool resumes() const { return resume_option && resume_option->given(); }  ///< --resume
};

/// Declares these options on a train subcommand; with finds_rates those of `lr-range`.
void declare(TrainingOptions& o, Subcommand& subcommand);

/// The network and the data of a run. All references must outlive the run.
struct TrainingTask {
  const Graph& graph;
  const Dataset& training;
  const Dataset* validation;  ///< may be null
  /// Whether samples are read from memory, not from files.
  bool in_memory = false;
  std::string precision;      ///< as engine/plan/precision.hpp has them
  std::string title;          ///< of the report
  const Subcommand& options;  ///< with the values from checkpoints and recipes
  /// Those of TrainerOptions::evaluation, for networks that predict numbers; may be null.
  const TargetMetrics* targets = nullptr;
  std::string targets_note = {};               ///< of the report, with `targets`
  std::vector<std::string> left_out = {};      ///< why samples were left out, for the report
  std::optional<MlperfBenchmark> mlperf = {};  ///< for TrainingOptions::mlperf
  /// Makes further sections of the report. Called on the first rank after each validation. May be empty.
  std::function<std::vector<ReportInput::Section>()> sections = {};
};

/// A run of a train subcommand, from its options to its exit code:
///
///   TrainingRun run(options, launch);
///   run.complete(...);
///   ... make data and network of the subcommand's own options ...
///   auto t = run.trainer_options(optimizer_options);
///   t.network = ...; t.evaluation.metrics = ...;
///   return run.train({graph, *data, validation.get(), precision, title, subcommand}, t);
class TrainingRun {
 public:
  /// Starts the clock of --time-limit, finds the checkpoint of --resume, and checks that --out can be used. Throws
  /// InputError. Collective.
  TrainingRun(const TrainingOptions& options, Launch& launch);

  /// The checkpoint to continue from; nothing: a new run.
  const std::optional<CheckpointReader>& checkpoint() const { return checkpoint_; }
  /// The checkpoint that options which the user left out, and what follows from the training data, are taken from:
  /// checkpoint(), or that of another member of the ensemble; nothing: none.
  const std::optional<CheckpointReader>& model() const;
  /// The checkpoint's path; empty: a new run.
  std::filesystem::path resumed_from() const;
  /// Fills in options that the user has left out. A run that continues: from the checkpoint, with the checkpoint's
  /// global batch whatever the number of ranks was and is; `other_data`: the user names the data. A new run: from the
  /// recipe that `o` names, if any. A member of an ensemble that begins gets the options of its design, which count as
  /// given (MemberRecord). Throws InputError for a checkpoint of another program's network (check_family()).
  void complete(Subcommand& subcommand, const NetworkFamily& family, bool other_data, const RunOptions& o,
                const Recipes& recipes) const;

  /// The process grid of --parallel, --spatial, --channel-parallel and --stages. With --parallel auto, after
  /// trainer_options(): a grid for the same global batch; train() chooses the grid.
  const ProcessGrid::Extents& grid() const { return grid_; }
  /// The trainer's options as `o` and the options of this run set them. The caller adds the rest.
  TrainerOptions trainer_options(const OptimizerOptions& o);

  /// Trains, prints, and writes into --out, which is locked for other runs. From here on, signals end the run with a
  /// checkpoint. "auto" precision takes the precision that is faster on this machine, and --parallel auto
  /// the fastest process grid. Collective.
  ExitCode train(const TrainingTask& task, TrainerOptions t) const;

 private:
  void fill(Subcommand& subcommand, const NetworkFamily& family, bool other_data, const RunOptions& o,
            const Recipes& recipes) const;
  /// The text of the blueprint of --grow: a resumed run has that of its checkpoint, unless another file is given.
  std::string blueprint(const std::string& path) const;
  /// As train(); `whole`: the program's network, of which `task` may have a narrower one (--grow).
  ExitCode train_network(const TrainingTask& task, const Graph& whole, TrainerOptions t) const;
  /// Lets the network change as --apoptosis or --grow say. `whole` and `training` must outlive the run.
  void let_network_change(const TrainingTask& task, const Graph& whole, const Dataset& training, Communicator& world,
                          TrainerOptions& t) const;
  void choose_precision_and_grid(const TrainingTask& task, Context& context, Communicator& world,
                                 TrainerOptions& t) const;
  ExitCode train_in_stack(const TrainingTask& task, TrainerOptions t) const;  ///< with --stack
  void choose_the_grid(const TrainingTask& task, Context& context, Communicator& world, TrainerOptions& t) const;

  const TrainingOptions& options_;
  Launch& launch_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  ProcessGrid::Extents grid_;
  std::optional<ApoptosisOptions> apoptosis_;  ///< of --apoptosis
  std::optional<GrowthOptions> growth_;        ///< of --grow
  std::string blueprint_path_;                 ///< of --grow, for errors
  std::optional<CheckpointReader> checkpoint_;
  RunFolder folder_;
  std::chrono::steady_clock::time_point run_start_;  ///< start of MLPerf's timed part: before any data are opened
  bool anew_ = false;                                ///< the run has already begun, with other ranks
};

}  // namespace keelson::app
