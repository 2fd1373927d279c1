#include <fmt/format.h>
#include <nanobind/stl/function.h>

#include <cmath>
#include <optional>

#include "apps/search/page/search_report.hpp"
#include "apps/search/training/search_run.hpp"
#include "apps/search/training/search_settings.hpp"
#include "apps/search/training/train_network.hpp"
#include "blueprint.hpp"
#include "casters.hpp"
#include "data.hpp"
#include "engine/base/ranks.hpp"
#include "objects.hpp"
#include "search/genome/design.hpp"
#include "signals.hpp"

namespace keelson::python {
namespace {

using search::DataOptions;
using search::SearchData;
using search::SearchFolder;

/// Ends the job's hold on a folder at the end of a with statement.
struct HeldFolder {
  std::unique_ptr<app::FolderLock> lock;
};

void put(DataOptions& o, const std::string& name, nb::handle value) {
  const auto text = [&] { return nb::cast<std::string>(value); };
  const auto texts = [&] { return nb::cast<std::vector<std::string>>(value); };
  if (name == "data")
    o.data = text();
  else if (name == "validation")
    o.validation = text();
  else if (name == "holdout")
    o.holdout = nb::cast<double>(value);
  else if (name == "target")
    o.targets = texts();
  else if (name == "features")
    o.features = texts();
  else if (name == "classes")
    o.classes = nb::cast<bool>(value);
  else if (name == "x")
    o.x = text();
  else if (name == "y")
    o.y = text();
  else if (name == "layout")
    o.layout = text();
  else if (name == "one-per-file")
    o.one_per_file = nb::cast<bool>(value);
  else if (name == "missing")
    o.missing = text();
  else if (name == "split-seed")
    o.split_seed = nb::cast<std::uint64_t>(value);
  else
    refuse("the data of a search have no option '{}'", name);
}

/// `options`: by the names of keelson-search's options; without "classes" the data say if these are classes.
DataOptions data_options(const nb::dict& options) {
  DataOptions o;
  o.deduce_classes = !options.contains("classes");
  for (const auto& [name, value] : options) put(o, nb::cast<std::string>(name), value);
  return o;
}

void construct_data(SearchData* self, const nb::dict& options, std::shared_ptr<Dataset> data,
                    std::shared_ptr<Dataset> validation, nb::handle comm) {
  const DataOptions o = data_options(options);
  const auto ranks = ranks_of(comm);
  for (const auto& part : {data, validation})
    if (part && reads_in_order(*part))
      refuse("{}: its samples can only be read in order, but a search reads them at random", part->describe());
  const nb::gil_scoped_release release;
  if (data)
    new (self) SearchData(std::move(data), std::move(validation), o);
  else
    new (self) SearchData(o, communicator_of(ranks));
}

/// `given`: by the names of SearchOptions.
search::SearchOptions search_options(const nb::dict& given) {
  search::SearchOptions o;
  const auto take = [&](const char* name, auto& value) {
    if (given.contains(name)) value = nb::cast<std::decay_t<decltype(value)>>(given[name]);
  };
  take("method", o.method);
  take("objectives", o.objectives);
  take("space", o.space);
  take("start", o.start);
  if (given.contains("blueprint"))
    if (const auto blueprint = blueprint_of(given["blueprint"])) o.blueprint = blueprint->options;
  take("epochs", o.epochs);
  take("first_epochs", o.first_epochs);
  take("eta", o.eta);
  take("seed", o.seed);
  take("lease", o.lease);
  take("members", o.members);
  take("interval", o.interval);
  take("tournament", o.tournament);
  take("partition", o.partition);
  return o;
}

void begin(const std::string& folder, const SearchData& data, ContextObject& context, const nb::dict& options,
           const std::string& config) {
  const search::SearchOptions o = search_options(options);
  const nb::gil_scoped_release release;
  search::begin_search(SearchFolder{folder}, search::settings_of(o, data, config), context.ranks->get());
}

/// Throws on all ranks if one was interrupted. Called without the GIL. Collective.
void raise_on_all_ranks(Signals& signals, Communicator& world) {
  std::int64_t any = signals.raised() ? 1 : 0;
  world.allreduce(&any, 1, Reduction::max);
  if (any != 0) signals.raise();
}

/// Genomes that a function of Python proposes.
class ProposedMethod final : public search::Method {
 public:
  /// Called with all networks so far, a seed, and the number of the trial. Returns a genome as JSON.
  using Propose = std::function<std::string(nb::list networks, std::uint64_t seed, int trial)>;
  ProposedMethod(std::string name, Propose propose, Signals& signals)
      : name_(std::move(name)), propose_(std::move(propose)), signals_(signals) {}

  std::optional<search::Child> make_child(const search::Population& population, search::Draws& draws,
                                          int trial) const override {
    constexpr int most_trials = 50;  // of proposals that are all known
    if (trial >= most_trials) return search::RandomSearch().make_child(population, draws, trial);
    const auto seed = static_cast<std::uint64_t>(draws.below(std::size_t{1} << 31));
    const nb::gil_scoped_acquire acquire;
    std::string genome;
    const bool proposed = signals_.call(Signals::Kept::all, [&] { genome = propose_(known(population), seed, trial); });
    if (!proposed) return std::nullopt;
    return search::Child{search::parse_genome(genome, population.settings().space), {}, name_};
  }

 private:
  /// Genome, losses by rung, and failure of each network.
  static nb::list known(const search::Population& population) {
    nb::list networks;
    for (const search::Individual& i : population.all()) {
      nb::list losses;
      for (const search::Result& r : i.results) losses.append(r.loss);
      networks.append(nb::make_tuple(i.key, losses, !i.failure.empty()));
    }
    return networks;
  }

  std::string name_;
  Propose propose_;
  Signals& signals_;
};

using Tell = std::function<void(const std::string&)>;

void run(const std::string& folder, const SearchData& data, ContextObject& context, std::int64_t networks,
         double seconds, int ranks_per_network, int keep, bool joins, const Tell& tell,
         ProposedMethod::Propose propose) {
  const nb::gil_scoped_release release;
  Communicator& world = context.ranks->get();
  search::SearchRun search(SearchFolder{folder}, data, world);
  const auto& settings = search.settings();
  Signals signals;
  std::unique_ptr<search::Method> method;
  if (propose)
    method = std::make_unique<ProposedMethod>(settings.method, std::move(propose), signals);
  else
    method = search::make_method(settings);
  std::function<void(const std::string&)> told;
  if (tell) told = [&](const std::string& line) { signals.call(Signals::Kept::all, [&] { tell(line); }); };
  const auto instance = context.get().device().make_instance();
  {
    const InstanceScope scope(*instance);
    search.work(context.get(), *context.communicator(), *method,
                {.networks = networks,
                 .seconds = seconds,
                 .ranks_per_network = ranks_per_network,
                 .keep = keep,
                 .joins = joins,
                 .interrupted = [&] { return signals.interrupted(); },
                 .tell = told});
  }
  raise_on_all_ranks(signals, world);
}

nb::dict record(const search::Individual& i, const search::Settings& settings) {
  nb::dict r;
  const search::Result* last = i.last();
  const double none = std::nan("");
  r["number"] = i.id;
  r["loss"] = last ? last->loss : none;
  r["metric"] = last ? last->metric : none;
  r["epochs"] = last ? settings.epochs_of(last->rung) : 0.0;
  r["parameters"] = i.cost.parameters;
  r["flops"] = i.cost.flops;
  r["step_ms"] = last ? last->step_ms : none;
  double seconds = 0;
  for (const auto& result : i.results) seconds += result.seconds;
  r["seconds"] = seconds;
  r["origin"] = i.origin;
  r["parents"] = i.parents;
  const search::Genome genome = i.genome_of_last();
  r["design"] = search::summary_of(genome, settings.space);
  r["genome"] = search::to_json(genome, settings.space);
  r["failure"] = i.failure;
  return r;
}

/// What the log has: settings, networks, the numbers of the best.
nb::dict read(const std::string& folder) {
  std::optional<search::ReadSearch> found;
  {
    const nb::gil_scoped_release release;
    found.emplace(folder);
  }
  const auto& population = found->population();
  nb::list networks, checkpoints;
  for (const auto& i : population.all()) {
    networks.append(record(i, population.settings()));
    checkpoints.append(search::checkpoints_of_last(folder, i, population.settings()).string());
  }
  nb::dict all;
  all["settings"] = population.settings().to_json();
  all["state"] = search::state_of(population);
  all["networks"] = networks;
  all["checkpoints"] = checkpoints;
  all["best"] = population.best(population.all().size());
  all["front"] = population.with_results() > 0 ? population.front() : std::vector<std::int64_t>();
  return all;
}

std::vector<std::string> lines(const std::string& folder) {
  std::vector<std::string> all;
  search::SearchLog(SearchFolder{folder}.log(), false).read_new([&](const std::string& line) { all.push_back(line); });
  return all;
}

/// The network of a genome, as a search makes it; for choices that the space of the search has restricted, too.
std::shared_ptr<Network> network_of_genome(const std::string& name, const std::string& genome, const Shape& sample,
                                           std::int64_t outputs, bool classes) {
  auto space = search::Space::of(sample, outputs, classes);
  space.admit(genome);
  auto network = std::make_shared<Network>();
  network->graph = search::network_of(search::parse_genome(genome, space), space);
  network->name = name;
  return network;
}

}  // namespace

void bind_search(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<HeldFolder>(m, "HeldFolder", "A folder that no other process may write to, until the end of `with`.")
      .def(
          "__init__",
          [](HeldFolder* self, const std::string& folder, ContextObject& context) {
            new (self) HeldFolder{search::hold_folder(SearchFolder{folder}, context.ranks->get())};
          },
          nb::arg("folder"), nb::arg("context"), Release())
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__", [](HeldFolder& held, nb::handle, nb::handle, nb::handle) { held.lock.reset(); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
  nb::class_<SearchData>(m, "SearchData", "The data of a search.")
      .def("__init__", &construct_data, nb::arg("options"), nb::arg("data").none(), nb::arg("validation").none(),
           nb::arg("comm").none())
      .def_prop_ro(
          "classes", [](const SearchData& d) { return d.with_classes(); }, "Whether the targets are classes.")
      .def("describe", &SearchData::describe, "Numbers of samples, and their shapes.");
  m.def("begin", &begin, nb::arg("folder"), nb::arg("data"), nb::arg("context"), nb::arg("options"), nb::arg("config"),
        "Writes the first line of a log. Collective.");
  m.def("run", &run, nb::arg("folder"), nb::arg("data"), nb::arg("context"), nb::kw_only(), nb::arg("networks"),
        nb::arg("seconds"), nb::arg("ranks_per_network"), nb::arg("keep"), nb::arg("joins"), nb::arg("tell").none(),
        nb::arg("propose").none(), "Works on a search until its budget is used up. Collective.");
  m.def("read", &read, nb::arg("folder"), "What the log has.");
  m.def("lines", &lines, nb::arg("folder"), Release(), "The valid lines of the log.");
  m.def(
      "write_report", [](const std::string& folder) { search::write_report(search::ReadSearch(folder)); },
      nb::arg("folder"), Release(), "Writes the page.");
  m.def("network", &network_of_genome, nb::arg("name"), nb::arg("genome"), nb::arg("sample"), nb::arg("outputs"),
        nb::arg("classes"), "The network of a genome.");
}

}  // namespace keelson::python
