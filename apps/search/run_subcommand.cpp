#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/search/data_options.hpp"
#include "apps/search/page/search_report.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "apps/search/training/search_run.hpp"
#include "apps/search/training/train_member.hpp"
#include "apps/search/training/train_network.hpp"
#include "backends/registry.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/ranks.hpp"
#include "search/genome/design.hpp"
#include "search/method/population_training.hpp"

namespace keelson::search {
namespace {

struct RunOptions {
  DataOptions data;
  app::DeviceOptions device;
  std::string out = "search";
  std::string method = "evolution", space, start;
  std::vector<std::string> objectives = {"loss"};
  std::int64_t networks = 100, epochs = 8, first_epochs = 0;
  int eta = 4, ranks_per_network = 1, keep = 5;
  std::uint64_t seed = 1;
  double time_limit = 0, lease = 60, tournament = 0.1;
  std::int64_t interval = 1;
  bool partition = false;
  bool overwrite = false, join = false;
  app::Subcommand* subcommand = nullptr;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse("{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

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
  v.option("--tournament", o.tournament,
           "ltfb: part of the training data that is held out, and by which members choose between two models", "PART")
      .between(0.001, 0.9)
      .stored();
  v.flag("--partition", o.partition, "ltfb: each member trains on a part of the training data of its own").stored();
}

void declare_search(RunOptions& o, app::Subcommand& v) {
  v.option("--method", o.method, "How new networks are made").one_of(method_names()).stored();
  v.option("--objective", o.objectives, "What is minimised: loss, parameters, flops, time; several give a Pareto front",
           "NAME,...")
      .comma_separated()
      .stored();
  v.option("--epochs", o.epochs, "Epochs of the longest training", "N").positive().stored();
  v.option("--first-epochs", o.first_epochs,
           "Epochs after which a network must be among the best to be trained longer (ASHA); 0: train all to the end",
           "N")
      .non_negative()
      .stored();
  v.option("--eta", o.eta, "Of the networks that have trained so long, one of so many goes on, so many times longer",
           "N")
      .between(2, 64)
      .stored();
  v.option("--seed", o.seed, "Seed of the search", "N").stored();
  v.option("--lease", o.lease,
           "A training without a result counts as lost after three times what others take, but never before so many "
           "seconds",
           "SECONDS")
      .positive()
      .stored();
  v.option_without_default("--space", o.space, "JSON file that restricts the choices of genes, and sets limits", "FILE")
      .stored();
  v.option_without_default("--start", o.start,
                           "JSON file with a genome to begin with (evolution), or whose network is trained (pbt, ltfb)",
                           "FILE")
      .stored();
}

/// What the members of a population train. `s` is complete but for this.
PopulationTraining population_of(const RunOptions& o, const Settings& s) {
  if (o.first_epochs > 0) refuse("--first-epochs: {} trains all members to the end", o.method);
  if (s.objectives != std::vector{Objective::loss})
    refuse("--objective: {} trains one network, so it can minimise the loss alone", o.method);
  if (o.method == "pbt" && o.partition)
    refuse("--partition: pbt trains all members on all training data; --method ltfb takes parts");
  PopulationTraining p;
  p.members = o.networks;
  p.interval = static_cast<double>(std::min(o.interval, o.epochs));
  p.tournament = o.method == "ltfb" ? o.tournament : 0;
  p.partition = o.partition;
  p.trains_start = !o.start.empty();
  if (p.trains_start) {
    p.start = repaired(parse_genome(text_of(o.start), s.space), s.space);
  } else if (const auto design = only_design(s.space)) {
    p.start = *design;
  } else {
    refuse(
        "--method {} trains one network: name its genome with --start, or leave one choice for each gene of stages and "
        "dense layers, and for their numbers, in --space",
        o.method);
  }
  if (const auto why = over_limit(cost_of(p.start, s.space), s.space); !why.empty())
    refuse("the network has {}: set \"limits\" in --space", why);
  return p;
}

Settings settings_of(const RunOptions& o, const SearchData& data) {
  Settings s;
  s.seed = o.seed;
  s.method = o.method;
  s.objectives.clear();
  for (const auto& name : o.objectives) s.objectives.push_back(parse_objective(name));
  s.epochs = static_cast<double>(o.epochs);
  s.first_epochs = o.first_epochs > 0 ? static_cast<double>(std::min(o.first_epochs, o.epochs)) : s.epochs;
  s.eta = o.eta;
  s.least_lease = o.lease;
  s.space = data.space();
  if (!o.space.empty()) s.space.restrict(text_of(o.space));
  s.data = fmt::format("{:016x}", data.digest());
  s.config = nlohmann::json(o.subcommand->values()).dump();
  if (is_population_method(o.method)) s.population = population_of(o, s);
  return s;
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
  const Settings& settings = search.settings();
  std::optional<Genome> start;
  if (!o.start.empty() && !settings.trains_population()) start = parse_genome(text_of(o.start), settings.space);
  const auto method = make_method(settings.method, settings.space, std::move(start));
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
    auto folder = judge.checkpoints_of(i.id);
    if (judge.settings.trains_population()) folder = folder_of_rung(folder, i.last()->rung);
    const Result r = judge.evaluate(newest_checkpoint(folder), i.id, i.genome, *data.test());
    fmt::print("test data: loss {:.5g}{}\n", r.loss,
               search.population().settings().space.classes ? fmt::format(", accuracy {:.4f}", r.metric) : "");
  }
  fmt::print("report: {}\n", search.folder().report().string());
}

ExitCode run(RunOptions& o, app::Launch& launch) {
  const SearchData data(o.data, &launch.world);
  const Settings settings = settings_of(o, data);
  if (settings.trains_population()) MemberData(settings, data.training());  // refuses before anything is removed
  const auto lock = hold_new_folder(o, launch.world);
  begin_search(SearchFolder{o.out}, settings, launch.world);
  const ExitCode code = run_workers(o, data, launch, false);
  conclude(o, data, launch);
  return code;
}

ExitCode resume(RunOptions& o, const std::vector<std::string>& folders, app::Launch& launch) {
  if (folders.size() != 1) refuse("resume: give the folder of one search");
  o.out = folders[0];
  auto config = nlohmann::json::parse(ReadSearch(o.out).population().settings().config).get<app::Config>();
  const auto known = o.subcommand->values();
  std::erase_if(config, [&](const auto& option) { return !known.contains(option.first); });
  o.subcommand->fill(config, SearchFolder{o.out}.log().string());
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
