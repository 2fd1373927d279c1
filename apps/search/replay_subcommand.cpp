#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/search/data_options.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "apps/search/training/search_settings.hpp"
#include "apps/search/training/train_network.hpp"
#include "engine/base/counted.hpp"
#include "search/log/lines.hpp"
#include "search/method/method.hpp"
#include "search/method/population_training.hpp"

namespace keelson::search {
namespace {

struct ReplayOptions {
  std::vector<std::string> folders;
  std::string start, scratch;
  std::int64_t retrain = 0;
  app::DeviceOptions device;
};

/// Whether the lines before a member's interval give the same source, partner and training as the log has.
bool interval_differs(const Line& line, const Population& population) {
  const Space& space = population.settings().space;
  const std::int64_t id = line.whole("id");
  if (!line.has("source") || line.whole("seen") != population.seen() || id >= std::ssize(population.all()))
    return false;
  const Individual& member = population.all()[static_cast<std::size_t>(id)];
  if (member.running || std::ssize(member.results) != line.whole("rung")) return false;  // another worker was first
  const Interval logged = parse_interval(line, space), made = next_interval(population, member);
  return logged.source != made.source || logged.source_rung != made.source_rung || logged.partner != made.partner ||
         logged.training != made.training;
}

/// Makes each network, and each interval of a population's member, again from the lines of the log before its own.
/// Returns how many differ.
std::int64_t remake(const SearchFolder& folder, const Method& method, Population& population) {
  std::int64_t differ = 0;
  SearchLog log(folder.log(), false);
  log.read_new([&](const std::string& json) {
    if (population.begun() && Line(json).text("type") == "birth") {
      const Space& space = population.settings().space;
      const Individual logged = parse_birth(Line(json), space);
      // The worker may not have read the lines that others wrote at the same time.
      if (logged.seen == population.seen()) {
        const auto made = next_individual(population, method, logged.slot);
        if (!made || to_json(made->genome, space) != to_json(logged.genome, space)) {
          ++differ;
          fmt::print("network {}: the log has another genome than its lines give\n", population.all().size());
        }
      }
    }
    if (population.begun() && Line(json).text("type") == "run" && interval_differs(Line(json), population)) {
      ++differ;
      fmt::print("member {}: the log has another interval {} than its lines give\n", Line(json).whole("id"),
                 Line(json).whole("rung"));
    }
    population.apply(json);
  });
  return differ;
}

/// Trains networks again, in a folder of its own. Returns how many have another result.
std::int64_t retrain(const ReplayOptions& o, const Population& population, app::Launch& launch) {
  const Settings& settings = population.settings();
  app::Subcommand options;
  DataOptions d;
  declare(d, options);
  fill_from_log(options, settings, o.folders[0]);
  require_named_data(d, o.folders[0]);
  const SearchData data(d, &launch.world);
  require_same_data(settings, data, o.folders[0]);
  app::DeviceSession device = app::open_device(o.device, launch);
  const NetworkTrainer trainer{settings,  data, *device.context, launch.world.size() > 1 ? device.ranks.get() : nullptr,
                               o.scratch, {}};
  std::int64_t differ = 0, done = 0;
  for (const Individual& i : population.all()) {
    if (done == o.retrain || i.last() == nullptr) continue;
    ++done;
    const Result again = trainer.train(i.id, i.genome, i.last()->rung);
    const bool same = again.loss == i.last()->loss && again.metric == i.last()->metric;
    differ += same ? 0 : 1;
    if (launch.world.rank() == 0)
      fmt::print("network {}: loss {:.17g}{}\n", i.id, again.loss,
                 same ? ", as in the log" : fmt::format(", but {:.17g} in the log", i.last()->loss));
  }
  return differ;
}

std::string intervals_text(const Population& population) {
  std::int64_t intervals = 0;
  for (const Individual& i : population.all()) intervals += std::max<std::int64_t>(0, std::ssize(i.intervals) - 1);
  return population.settings().trains_population() ? " and " + counted(intervals, "interval") : "";
}

ExitCode replay(const ReplayOptions& o, app::Launch& launch) {
  if (o.folders.size() != 1) refuse("replay: give the folder of one search");
  if (o.retrain > 0 && o.scratch.empty())
    refuse("--retrain writes checkpoints: name a new folder for them with --scratch");
  if (!o.scratch.empty() && std::filesystem::exists(o.scratch))
    refuse("--scratch {}: exists; name a new folder", o.scratch);
  const ReadSearch search(o.folders[0]);
  if (o.retrain > 0 && search.population().settings().trains_population())
    refuse("--retrain: the members of a population have weights of each other, and are not trained again");
  const auto method = make_method(search.population().settings());
  Population population;
  std::int64_t differ = remake(search.folder(), *method, population);
  if (launch.world.rank() == 0)
    fmt::print("{}{} made again from the log, {} differ\n",
               counted(static_cast<std::int64_t>(population.all().size()), "network"), intervals_text(population),
               differ);
  if (o.retrain > 0) differ += retrain(o, population, launch);
  if (differ > 0)
    fail("{}: {} of what was made again differ from the log. Was the log changed, or written by another version?",
         search.folder().log().string(), differ);
  return ExitCode::done;
}

}  // namespace

void define_replay(app::CommandLine& line) {
  auto o = std::make_shared<ReplayOptions>();
  app::Subcommand& v =
      line.subcommand("replay", "Make the networks of a search again from its log, train some of them, and compare",
                      [o](app::Launch& launch) { return replay(*o, launch); });
  v.positional("folder", o->folders, "Folder of the search", "DIR");
  v.option("--retrain", o->retrain,
           "Also train the first N networks again, on all ranks together, and compare their losses", "N")
      .non_negative()
      .not_stored();
  v.option_without_default("--scratch", o->scratch, "New folder for the checkpoints of --retrain", "DIR").not_stored();
  app::declare(o->device, v);
}

}  // namespace keelson::search
