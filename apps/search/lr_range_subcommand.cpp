#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/common/device_options.hpp"
#include "apps/common/rate_search.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/search/data_options.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "apps/search/training/search_settings.hpp"
#include "apps/search/training/train_network.hpp"
#include "engine/base/interrupt.hpp"
#include "search/genome/design.hpp"

namespace keelson::search {
namespace {

struct RangeOptions {
  std::vector<std::string> folders;
  DataOptions data;
  app::DeviceOptions device;
  std::string space, start;  ///< files
  std::string out = "lr-range";
  std::int64_t network = -1;
  RateRangeOptions rates = {.keep_parameters = false};
  app::Subcommand* subcommand = nullptr;
};

/// A network with its settings of the training.
struct Chosen {
  std::int64_t id = 0;
  Genome genome;
};

/// A network of a search: the one of --network, or the best.
Chosen chosen(const RangeOptions& o, const Population& population) {
  const auto count = std::ssize(population.all());
  const auto best = population.best(1);
  if (o.network < 0 && best.empty())
    refuse("{}: no network has a result yet; choose a network by --network", o.folders[0]);
  const std::int64_t id = o.network >= 0 ? o.network : best[0];
  if (id >= count)
    refuse("--network {}: the search has {}", id,
           count == 0 ? "no network" : fmt::format("the networks 0 to {}", count - 1));
  return {id, population.all()[static_cast<std::size_t>(id)].genome_of_last()};
}

ExitCode search_rates_of(const Chosen& network, const Settings& settings, const SearchData& data, const RangeOptions& o,
                         app::Launch& launch) {
  const app::DeviceSession session = app::open_device(o.device, launch);
  const auto interrupted = [] { return Interrupt::requested(); };
  const NetworkTrainer trainer{settings, data, *session.context, session.ranks.get(), {}, interrupted};
  const Graph graph = network_of(network.genome, settings.space);
  const TrainerOptions t = trainer.options_of(network.id, network.genome, data.training());
  if (launch.world.rank() == 0) fmt::print("{}\n", summary_of(network.genome, settings.space));
  return app::search_rates({graph, data.training(), t.network, o.rates, o.out}, session, t);
}

ExitCode lr_range(RangeOptions& o, app::Launch& launch) {
  if (o.folders.size() > 1) refuse("lr-range: give the folder of one search");
  if (o.folders.empty() == o.start.empty())
    refuse(
        "lr-range: expected either the folder of a search, or --start with the genome of a network and --data "
        "(keelson-search best FOLDER --out DIR writes genome.json)");
  if (o.folders.empty()) {
    if (o.network >= 0) refuse("--network: there is no search whose networks have numbers; leave it out");
    if (o.data.data.empty()) refuse("--start without --data: give the data on which the network trains");
    const SearchData data(o.data, &launch.world);
    SearchOptions search{.start = text_of_file(o.start), .start_from = o.start};
    if (!o.space.empty()) search.space = text_of_file(o.space);
    const Settings settings = settings_of(search, data, "{}");
    return search_rates_of({0, *settings.start}, settings, data, o, launch);
  }
  if (!o.space.empty()) refuse("--space: the search in {} has its own; leave it out", o.folders[0]);
  const ReadSearch search(o.folders[0]);
  const Settings& settings = search.population().settings();
  fill_from_log(*o.subcommand, settings, o.folders[0]);
  require_named_data(o.data, o.folders[0]);
  const SearchData data(o.data, &launch.world);
  require_same_data(settings, data, o.folders[0]);
  return search_rates_of(chosen(o, search.population()), settings, data, o, launch);
}

}  // namespace

void define_lr_range(app::CommandLine& line) {
  auto o = std::make_shared<RangeOptions>();
  app::Subcommand& v = line.subcommand(
      "lr-range", "Find learning rates for a network: train some steps with rising rates, and plot the loss",
      [o](app::Launch& launch) { return lr_range(*o, launch); });
  o->subcommand = &v;
  v.positional("folder", o->folders, "Folder of the search that has the network", "DIR");
  v.option_without_default("--network", o->network, "Number of the network; default: the best", "N")
      .non_negative()
      .not_stored();
  v.option_without_default("--start", o->start, "JSON file with the genome of a network, without a search", "FILE")
      .not_stored();
  v.option_without_default("--space", o->space, "JSON file with the choices of genes that this genome takes", "FILE")
      .not_stored();
  declare(o->rates, o->out, v);
  declare(o->data, v);
  app::declare(o->device, v);
}

}  // namespace keelson::search
