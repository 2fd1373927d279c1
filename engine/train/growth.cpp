#include "engine/train/growth.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/ranks.hpp"
#include "engine/data/subset_dataset.hpp"
#include "engine/train/detail/draw_probe.hpp"
#include "engine/train/detail/growth_ranges.hpp"
#include "engine/train/fed_executor.hpp"

namespace keelson {

namespace {

/// Finished epochs at the last change of the network; 0: none.
std::int64_t last_change(const RunState& state) {
  const auto found = state.observed.find(network_changes_entry);
  if (found == state.observed.end() || found->second.empty()) return 0;
  const double last = found->second.back();  // of a file, which may hold any number
  return last >= 0 && last <= static_cast<double>(state.epoch) ? static_cast<std::int64_t>(last) : state.epoch;
}

/// Where there was no validation: checkpoints hold finite numbers.
constexpr double no_metric = std::numeric_limits<double>::max();

double best_metric_of(const RunState& state) {
  return state.best_epoch >= 0 && std::isfinite(state.best_metric) ? state.best_metric : no_metric;
}

/// Sum and number of squares.
struct Squares {
  double sum = 0;
  std::int64_t count = 0;
};

/// The squares of the elements that multiply new units for units that are old. `is_new`: by dimension and index.
Squares squares_of(const UnitPlace& place, std::int64_t old_units, const Shape& shape,
                   const std::vector<std::vector<char>>& is_new, const std::vector<double>& gradient) {
  std::vector<char> wanted(static_cast<std::size_t>(shape[place.dim]));
  for (std::size_t u = static_cast<std::size_t>(old_units); u < place.indices.size(); ++u)
    for (const auto i : place.indices[u]) wanted[static_cast<std::size_t>(i)] = 1;
  Squares squares;
  for (std::int64_t e = 0; e < shape.elements(); ++e) {
    bool counts = true;
    std::int64_t left = e;
    for (int d = shape.rank() - 1; d >= 0 && counts; --d) {
      const auto i = static_cast<std::size_t>(left % shape[d]);
      left /= shape[d];
      counts = d == place.dim ? wanted[i] : !is_new[static_cast<std::size_t>(d)][i];
    }
    if (!counts) continue;
    squares.sum += gradient[static_cast<std::size_t>(e)] * gradient[static_cast<std::size_t>(e)];
    ++squares.count;
  }
  return squares;
}

std::string describe_growth(const GrowthEvent& e, const GrowthOptions& options) {
  std::vector<std::string> changes, gradients;
  for (const auto& [name, units] : e.units)
    changes.push_back(fmt::format("{} {} -> {}", name, e.units_before.at(name), units));
  for (const auto& [name, copies] : e.copies) changes.push_back(fmt::format("copy {} of {}", copies, name));
  for (const auto& [name, gradient] : e.gradients) gradients.push_back(fmt::format("{} {:.3g}", name, gradient));
  return fmt::format(
      "growth: {}{}; parameters {} -> {}{}", fmt::join(changes, ", "),
      e.units.empty() ? "" : fmt::format(" ({})", to_string(options.method)), e.parameters_before, e.parameters,
      gradients.empty() ? std::string()
                        : fmt::format("; gradients of new {}: {}", e.units.empty() ? "layers" : "outgoing weights",
                                      fmt::join(gradients, ", ")));
}

}  // namespace

std::string to_string(GrownRate rate) {
  return rate == GrownRate::schedule ? "schedule" : rate == GrownRate::lemon ? "lemon" : "net2net";
}

GrownRate parse_grown_rate(const std::string& text) {
  for (const auto rate : {GrownRate::schedule, GrownRate::lemon, GrownRate::net2net})
    if (to_string(rate) == text) return rate;
  refuse("rate '{}': expected schedule, lemon or net2net", text);
}

double grown_rate(GrownRate rule, const Schedule& schedule, std::int64_t epochs, const RunState& state) {
  const double now = position(state), all = static_cast<double>(epochs);
  const auto changed = static_cast<double>(last_change(state));
  if (changed == 0 || rule == GrownRate::schedule) return schedule.at(now);
  if (rule == GrownRate::net2net) return 0.1 * schedule.at(now);
  const double warm = std::min(schedule.warmup_epochs, all);
  return schedule.at(warm + (all - warm) * (now - changed) / (all - changed));
}

/// What RunState::observed[growth_entry] says.
struct Growth::Record {
  std::int64_t events = 0;                       ///< not undone
  std::int64_t pending_epoch = -1, pending = 0;  ///< as at growth_entry
  double best = no_metric;
  std::vector<std::int64_t> tried;

  explicit Record(const RunState& state) {
    const auto found = state.observed.find(growth_entry);
    if (found == state.observed.end() || found->second.size() < 4) return;
    std::vector<std::int64_t> all;  // of a file, which may hold any numbers
    for (const double v : found->second) all.push_back(v >= -1 && v < 1e9 ? static_cast<std::int64_t>(v) : -1);
    events = all[0];
    pending_epoch = std::min(all[1], state.epoch);
    pending = all[2];
    best = found->second[3];
    tried.assign(all.begin() + 4, all.end());
  }
  std::map<std::string, std::vector<double>> entry() const {
    std::vector<double> all;
    for (const auto v : {events, pending_epoch, pending}) all.push_back(static_cast<double>(v));
    all.push_back(best);
    all.insert(all.end(), tried.begin(), tried.end());
    return {{growth_entry, all}};
  }
};

/// What can grow in an event.
struct Growth::Candidate {
  std::int64_t number;              ///< among those that the network has
  std::vector<std::size_t> groups;  ///< that become wider
  std::vector<std::string> layers;  ///< that get another copy
};

/// The network before an event.
struct Growth::Network {
  const Graph& graph;
  std::vector<UnitGroup> groups;
  std::vector<Widening> widening;  ///< if all groups that can would become wider
  const Parameters& parameters;    ///< without moments, which may be in shards

  /// If these groups alone become wider.
  std::vector<Widening> widen(const std::vector<std::size_t>& those) const {
    std::vector<Widening> some = widening;
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (std::ranges::find(those, g) == those.end()) some[g].units = groups[g].units;
    return some;
  }
};

Growth::Growth(const GrowthOptions& options, const Task& task)
    : options_(options), task_(task), ranges_(std::make_shared<detail::GrowthRanges>(task_.graph, options_)) {}

/// Whether a validation since the last event or undo was better by the threshold.
bool Growth::gained(const RunState& state, const Record& record) const {
  if (record.best == no_metric) return state.best_epoch >= 0;
  const double gain = task_.higher_is_better ? state.best_metric - record.best : record.best - state.best_metric;
  return gain > options_.threshold * std::abs(record.best);
}

bool Growth::is_slow(const RunState& state) const {
  const auto found = state.observed.find(step_ms_entry);
  return options_.milliseconds > 0 && found != state.observed.end() && !found->second.empty() &&
         found->second[0] > options_.milliseconds;
}

/// After an undo the next layer does not wait.
bool Growth::is_due(const RunState& state, const Record& record) const {
  if (is_slow(state) || (options_.events > 0 && record.events >= options_.events)) return false;
  if (!options_.epochs.empty()) return std::ranges::find(options_.epochs, state.epoch) != options_.epochs.end();
  return !record.tried.empty() ||
         state.epoch - std::max({std::int64_t{0}, state.best_epoch, last_change(state)}) >= options_.patience;
}

std::optional<NetworkChange> Growth::end_trial(const RunState& state, Record& record) const {
  const std::int64_t since = record.pending_epoch;
  const bool better = gained(state, record), slow = is_slow(state);
  if (!better && state.epoch - since < options_.undo) return std::nullopt;
  record.pending_epoch = -1;
  NetworkChange end;
  end.kind = better && !slow ? NetworkChange::Kind::keep : NetworkChange::Kind::undo;
  if (end.kind == NetworkChange::Kind::keep) {
    record.tried.clear();
  } else {
    record.tried.push_back(record.pending);
    record.best = best_metric_of(state);
    --record.events;
    end.text = better ? fmt::format("growth undone: a step takes {:.3g} ms, more than {:.3g}",
                                    state.observed.at(step_ms_entry)[0], options_.milliseconds)
                      : fmt::format("growth undone: no validation was better since epoch {}", since);
  }
  end.observed = record.entry();
  return end;
}

/// Those that make layers wider come first.
std::vector<Growth::Candidate> Growth::candidates(const Network& network) const {
  std::vector<Candidate> all;
  std::vector<std::size_t> groups;
  std::vector<std::string> layers;
  for (std::size_t g = 0; g < network.groups.size(); ++g)
    if (network.widening[g].units > network.groups[g].units) groups.push_back(g);
  LayerCopies copies = copies_of(Topology(network.graph));
  for (const auto& [layer, most] : ranges_->most_copies())
    if (copies[layer] < most) layers.push_back(layer);
  const auto add = [&](std::vector<std::size_t> wider, std::vector<std::string> deeper) {
    if (!wider.empty() || !deeper.empty()) all.push_back({std::ssize(all), std::move(wider), std::move(deeper)});
  };
  if (!options_.one_layer) {
    add(groups, {});
    add({}, layers);
    return all;
  }
  for (const auto g : groups) add({g}, {});
  for (const auto& layer : layers) add({}, {layer});
  return all;
}

Graph Growth::larger(const Network& network, const Candidate& candidate) const {
  return candidate.layers.empty() ? wider_network(network.graph, network.groups, network.widen(candidate.groups))
                                  : deepen(network.graph, candidate.layers).graph;
}

std::map<std::string, std::vector<double>> Growth::sum_gradients(const NetworkChange& change, const Parameters& whole,
                                                                 const std::vector<std::string>& names,
                                                                 std::int64_t epoch) const {
  Parameters parameters = changed_parameters(whole, change, {});
  const SubsetDataset data(task_.training,
                           detail::draw_probe("growth", task_.training.size(), options_.probe, task_.seed, epoch));
  SampleDecoding decoding = decoding_for(parameters.context().device());
  FedExecutor network(change.graph, parameters,
                      {.batch = options_.probe_batch,
                       .precision = task_.precision == Precision::fp16 ? Precision::fp32 : task_.precision},
                      data, decoding);
  Loader loader(data,
                {.batch = options_.probe_batch, .shuffle = false, .threads = task_.threads, .decoding = decoding});
  loader.start_epoch(0);
  std::map<std::string, std::vector<double>> sums;
  while (const Batch* batch = loader.next()) {
    network.input.feed(*batch);
    network.executor.forward({.seed = task_.seed, .inverse_samples = 1 / static_cast<float>(data.size())});
    network.executor.backward();
    for (const std::string& name : names) {
      const auto gradient = network.executor.gradient(name);
      auto& sum = sums[name];
      sum.resize(gradient.size());
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += gradient[e];
    }
    network.input.finish();
  }
  return sums;
}

/// Of each candidate. All are wider, or all are deeper. The gradients of one are those without the others, since new
/// outgoing weights are zero.
std::vector<double> Growth::gradients(const Network& network, const std::vector<Candidate>& candidates,
                                      std::int64_t epoch) const {
  std::vector<std::size_t> wider;
  std::vector<std::string> deeper, names;
  for (const Candidate& c : candidates) {
    wider.insert(wider.end(), c.groups.begin(), c.groups.end());
    deeper.insert(deeper.end(), c.layers.begin(), c.layers.end());
  }
  std::vector<double> found;
  if (!deeper.empty()) {
    const NetworkChange change = deepen(network.graph, deeper);
    for (const std::string& layer : deeper) names.push_back(gaining_weights(change.graph, layer));
    const auto sums = sum_gradients(change, network.parameters, names, epoch);
    for (const std::string& name : names) {
      double squares = 0;
      for (const double g : sums.at(name)) squares += g * g;
      found.push_back(std::sqrt(squares / static_cast<double>(sums.at(name).size())));
    }
    return found;
  }
  std::vector<Widening> widening = network.widen(wider);
  for (Widening& w : widening) w.method = WidenMethod::zero;
  const NetworkChange change = widen_units(network.graph, network.groups, widening, network.parameters);
  for (const auto& entry : change.values) names.push_back(entry.first);
  const auto sums = sum_gradients(change, network.parameters, names, epoch);
  const auto wide = unit_groups(change.graph);  // in the same order
  KEELSON_EXPECT(wide.size() == network.groups.size());
  for (const auto g : wider) {
    Squares all;
    for (const UnitPlace& place : wide[g].places) {
      if (place.readers.empty()) continue;
      const auto& maps = change.maps.at(place.parameter).indices;
      Shape shape;
      for (const ParameterSpec& p : change.graph.parameters())
        if (p.name == place.parameter) shape = p.shape;
      std::vector<std::vector<char>> is_new;
      for (int d = 0; d < shape.rank(); ++d) {
        auto& of_dim = is_new.emplace_back(static_cast<std::size_t>(shape[d]));
        const IndexMap map = d < std::ssize(maps) ? maps[static_cast<std::size_t>(d)] : std::nullopt;
        for (std::size_t i = 0; map && i < of_dim.size(); ++i) of_dim[i] = (*map)[i] < 0;
      }
      const Squares more = squares_of(place, network.groups[g].units, shape, is_new, sums.at(place.parameter));
      all.sum += more.sum;
      all.count += more.count;
    }
    found.push_back(all.count > 0 ? std::sqrt(all.sum / static_cast<double>(all.count)) : 0);
  }
  return found;
}

NetworkChange Growth::grow(const Network& network, const Candidate& candidate) {
  NetworkChange change = candidate.layers.empty() ? widen_units(network.graph, network.groups,
                                                                network.widen(candidate.groups), network.parameters)
                                                  : deepen(network.graph, candidate.layers);
  GrowthEvent& event = *event_;
  for (const auto g : candidate.groups) {
    event.units_before[network.groups[g].name] = network.groups[g].units;
    event.units[network.groups[g].name] = network.widening[g].units;
  }
  const LayerCopies copies = copies_of(Topology(change.graph));
  for (const std::string& layer : candidate.layers) event.copies[layer] = copies.at(layer);
  event.parameters = change.graph.parameter_count();
  change.text = describe_growth(event, options_);
  return change;
}

std::optional<NetworkChange> Growth::operator()(const RunState& state, const Parameters& parameters) {
  event_.reset();
  Record record(state);
  if (record.pending_epoch >= 0) return end_trial(state, record);
  if (gained(state, record)) record.tried.clear();
  if (!is_due(state, record)) return std::nullopt;
  const Graph graph = with_topology(task_.graph, Topology::parse(state.topology));
  Parameters whole(graph, parameters.context(), parameters.seed());
  Network network{graph, unit_groups(graph), {}, whole};
  for (const UnitGroup& group : network.groups) {
    const std::int64_t now = group.units, most = ranges_->units_of(group).most;
    const std::int64_t next = std::llround(options_.factor * static_cast<double>(now));
    network.widening.push_back({std::max(now, std::min(std::max(now + 1, next), most)), options_.method});
  }
  std::vector<Candidate> all = candidates(network);
  std::erase_if(all, [&](const Candidate& c) {
    return std::ranges::find(record.tried, c.number) != record.tried.end() ||
           (ranges_->most_parameters() > 0 && larger(network, c).parameter_count() > ranges_->most_parameters());
  });
  if (all.empty()) return std::nullopt;
  if (!all.front().groups.empty()) std::erase_if(all, [](const Candidate& c) { return c.groups.empty(); });
  for (const Parameter& p : parameters.all()) whole.set(whole.at(p.name), parameters.get(p));

  event_ = GrowthEvent{.epoch = state.epoch, .parameters_before = graph.parameter_count()};
  std::size_t best = 0;
  if (all.size() > 1) {
    std::vector<double> found(all.size());
    on_each_rank(task_.ranks, [&] {
      if (!task_.ranks || task_.ranks->rank() == 0) found = gradients(network, all, state.epoch);
    });
    if (task_.ranks) task_.ranks->broadcast(found.data(), found.size() * sizeof(double), 0);
    best = static_cast<std::size_t>(std::ranges::max_element(found) - found.begin());
    for (std::size_t i = 0; i < all.size(); ++i)
      event_->gradients[all[i].layers.empty() ? network.groups[all[i].groups[0]].name : all[i].layers[0]] = found[i];
  }
  NetworkChange change = grow(network, all[best]);
  ++record.events;
  record.best = best_metric_of(state);
  if (options_.epochs.empty() && options_.undo > 0) {
    change.may_be_undone = true;
    record.pending_epoch = state.epoch;
    record.pending = all[best].number;
  }
  change.observed = record.entry();
  return change;
}

}  // namespace keelson
