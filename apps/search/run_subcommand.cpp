#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/common/blueprint.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/search/data_options.hpp"
#include "apps/search/page/search_report.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "apps/search/training/search_run.hpp"
#include "apps/search/training/search_settings.hpp"
#include "apps/search/training/train_network.hpp"
#include "backends/registry.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/ranks.hpp"
#include "search/method/method.hpp"

namespace keelson::search {
namespace {

struct RunOptions {
  DataOptions data;
  app::DeviceOptions device;
  SearchOptions search;
  std::string out = "search";
  std::string space, blueprint, start;  ///< files
  std::int64_t networks = 100, epochs = 8, first_epochs = 0, interval = 1;
  int ranks_per_network = 1, keep = 5;
  double time_limit = 0;
  bool overwrite = false, join = false;
  app::Subcommand* subcommand = nullptr;
};

void declare_limits(RunOptions& o, app::Subcommand& v) {
  v.option("--networks", o.networks,
           "Train at most so many networks, those of earlier starts included; of pbt and ltfb: members", "N")
      .positive()
      .not_stored();
  v.option("--time-limit", o.time_limit, "Begin no training after so many seconds of this start; 0: no limit",
           "SECONDS")
      .non_negative()
      .not_stored();
  v.option("--ranks-per-network", o.ranks_per_network, "Ranks that train one network, data-parallel", "N")
      .positive()
      .not_stored();
  v.option("--keep", o.keep, "Keep the checkpoints of so many networks, the best", "N").positive().not_stored();
}

void declare_population(RunOptions& o, app::Subcommand& v) {
  v.option("--interval", o.interval, "pbt, ltfb: epochs after which a member may take over the weights of another", "N")
      .positive()
      .stored();
  v.option("--tournament", o.search.tournament,
           "ltfb: part of the training data that is held out, and by which members choose between two models", "PART")
      .between(0.001, 0.9)
      .stored();
  v.flag("--partition", o.search.partition, "ltfb: each member trains on a part of the training data of its own")
      .stored();
}

void declare_search(RunOptions& o, app::Subcommand& v) {
  v.option("--method", o.search.method, "How new networks are made").one_of(method_names()).stored();
  v.option("--objective", o.search.objectives,
           "What is minimised: loss, parameters, flops, time; several give a Pareto front", "NAME,...")
      .comma_separated()
      .stored();
  v.option("--epochs", o.epochs, "Epochs of the longest training", "N").positive().stored();
  v.option("--first-epochs", o.first_epochs,
           "Epochs after which a network must be among the best to be trained longer (ASHA); 0: train all to the end",
           "N")
      .non_negative()
      .stored();
  v.option("--eta", o.search.eta,
           "Of the networks that have trained so long, one of so many goes on, so many times longer", "N")
      .between(2, 64)
      .stored();
  v.option("--seed", o.search.seed, "Seed of the search", "N").stored();
  v.option("--lease", o.search.lease,
           "A training without a result counts as lost after three times what others take, but never before so many "
           "seconds",
           "SECONDS")
      .positive()
      .stored();
  v.option_without_default("--space", o.space, "JSON file that restricts the choices of genes, and sets limits", "FILE")
      .stored();
  v.option_without_default("--blueprint", o.blueprint,
                           "TOML file, as --grow reads it, that restricts widths, copies of layers, and parameters",
                           "FILE")
      .stored();
  v.option_without_default("--start", o.start,
                           "JSON file with a genome to begin with (evolution), or whose network is trained (pbt, ltfb)",
                           "FILE")
      .stored();
}

Settings settings_of(const RunOptions& o, const SearchData& data) {
  SearchOptions search = o.search;
  if (!o.space.empty()) search.space = text_of_file(o.space);
  if (!o.blueprint.empty()) search.blueprint = app::parse_blueprint(text_of_file(o.blueprint), o.blueprint);
  search.blueprint_from = o.blueprint;
  if (!o.start.empty()) search.start = text_of_file(o.start);
  search.start_from = o.start;
  search.first_epochs = static_cast<double>(o.first_epochs);
  search.epochs = static_cast<double>(o.epochs);
  search.interval = static_cast<double>(o.interval);
  search.members = o.networks;
  return settings_of(search, data, nlohmann::json(o.subcommand->values()).dump());
}

/// Holds the folder of a new search. Refuses one that has a search, unless it is to be removed.
std::unique_ptr<app::FolderLock> hold_new_folder(const RunOptions& o, Communicator& world) {
  const SearchFolder folder{o.out};
  auto lock = hold_folder(folder, world);
  on_first_rank(&world, [&] {
    if (!o.overwrite && std::filesystem::exists(folder.log()))
      refuse(
          "{}: holds a search; keelson-search resume {} goes on with it, --overwrite removes it, --out names another "
          "folder",
          o.out, o.out);
  });
  return lock;
}

/// Runs workers on the log of the folder until the budget is used up.
ExitCode run_workers(const RunOptions& o, const SearchData& data, app::Launch& launch, bool adds_workers) {
  Communicator& world = launch.world;
  SearchRun search(SearchFolder{o.out}, data, world);
  const auto method = make_method(search.settings());
  app::DeviceSession device = app::open_device(o.device, launch);
  const auto tell = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  if (world.rank() == 0) tell(fmt::format("{}\n{}; {}", data.describe(), launch.machine, device.context->describe()));
  Interrupt::install("keelson-search: ends after the current steps; keelson-search resume goes on");
  const auto times = search.work(*device.context, *device.ranks, *method,
                                 {.networks = o.networks,
                                  .seconds = o.time_limit,
                                  .ranks_per_network = o.ranks_per_network,
                                  .keep = o.keep,
                                  .joins = adds_workers,
                                  .interrupted = [] { return Interrupt::requested(); },
                                  .tell = tell});
  if (world.rank() == 0 && times.all > 0)
    fmt::print("this worker trained {:.1f} % of its {:.1f} s: {}\n", 100 * times.trained / times.all, times.all,
               counted(times.trainings, "training"));
  return Interrupt::requested() ? ExitCode::interrupted : ExitCode::done;
}

/// Refuses a search that has ended without a network.
void require_networks(const RunOptions& o, Communicator& world) {
  on_first_rank(&world, [&] {
    const ReadSearch search(o.out);
    const Space& space = search.population().settings().space;
    if (search.population().all().empty())
      refuse(
          "{}: no network was made, since none of many was within the limits: {} parameters, {:.3g} FLOPs a sample, {} "
          "bytes. Expected larger limits, or smaller choices of widths, in --space or --blueprint",
          o.out, space.most_parameters, space.most_flops, space.most_bytes);
  });
}

void conclude(const RunOptions& o, const SearchData& data, app::Launch& launch) {
  if (launch.world.rank() != 0) return;
  const ReadSearch search(o.out);
  write_report(search);
  const auto best = search.population().best(1);
  if (best.empty()) return;
  const Individual& i = search.population().all()[static_cast<std::size_t>(best[0])];
  fmt::print("best network {}\n  {}\n", result_of(i, search.population().settings()),
             summary_of(i.genome_of_last(), search.population().settings().space));
  if (data.test() != nullptr) {
    app::DeviceSession device{backends::make_context(o.device.device, ""), nullptr};
    const NetworkTrainer judge{search.population().settings(), data, *device.context, nullptr, o.out, {}};
    const auto folder = checkpoints_of_last(o.out, i, judge.settings);
    const Result r = judge.evaluate(newest_checkpoint(folder), i.id, i.genome, *data.test());
    fmt::print("test data: loss {:.5g}{}\n", r.loss,
               search.population().settings().space.classes ? fmt::format(", accuracy {:.4f}", r.metric) : "");
  }
  fmt::print("report: {}\n", search.folder().report().string());
}

ExitCode run(RunOptions& o, app::Launch& launch) {
  const SearchData data(o.data, &launch.world);
  const Settings settings = settings_of(o, data);
  const auto lock = hold_new_folder(o, launch.world);
  begin_search(SearchFolder{o.out}, settings, launch.world);
  const ExitCode code = run_workers(o, data, launch, false);
  if (code == ExitCode::done && o.time_limit == 0) require_networks(o, launch.world);
  conclude(o, data, launch);
  return code;
}

ExitCode resume(RunOptions& o, const std::vector<std::string>& folders, app::Launch& launch) {
  if (folders.size() != 1) refuse("resume: give the folder of one search");
  o.out = folders[0];
  fill_from_log(*o.subcommand, ReadSearch(o.out).population().settings(), o.out);
  require_named_data(o.data, o.out);
  const SearchData data(o.data, &launch.world);
  std::unique_ptr<app::FolderLock> lock;
  if (!o.join) lock = hold_folder(SearchFolder{o.out}, launch.world);
  const ExitCode code = run_workers(o, data, launch, o.join);
  if (!o.join) conclude(o, data, launch);
  return code;
}

}  // namespace

void define_run(app::CommandLine& line) {
  auto o = std::make_shared<RunOptions>();
  app::Subcommand& v = line.subcommand(
      "run", "Search for a network that suits labelled data; each rank, or group of ranks, trains a network at a time",
      [o](app::Launch& launch) { return run(*o, launch); });
  o->subcommand = &v;
  declare(o->data, v);
  v.find("data").required();
  v.option("--out", o->out, "Folder of the search", "DIR").not_stored();
  declare_search(*o, v);
  declare_population(*o, v);
  declare_limits(*o, v);
  v.flag("--overwrite", o->overwrite, "Remove the search that --out holds").not_stored();
  app::declare(o->device, v);
}

void define_resume(app::CommandLine& line) {
  auto o = std::make_shared<RunOptions>();
  auto folders = std::make_shared<std::vector<std::string>>();
  app::Subcommand& v = line.subcommand("resume", "Go on with a search, on any number of ranks",
                                       [o, folders](app::Launch& launch) { return resume(*o, *folders, launch); });
  o->subcommand = &v;
  v.positional("folder", *folders, "Folder of the search", "DIR");
  declare(o->data, v);
  declare_limits(*o, v);
  v.flag("--join", o->join, "Add workers to a search that runs").not_stored();
  app::declare(o->device, v);
}

}  // namespace keelson::search
