#include "engine/train/growth.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/ranks.hpp"
#include "engine/data/subset_dataset.hpp"
#include "engine/train/detail/draw_probe.hpp"
#include "engine/train/fed_executor.hpp"

namespace keelson {

namespace {

/// Whether a node of this name has one channel for each unit of the group.
bool has_layer(const Graph& graph, const UnitGroup& group, const std::string& name) {
  return std::ranges::any_of(group.places, [&](const UnitPlace& p) {
    return p.node >= 0 && p.indices[0].size() == 1 && graph.nodes()[static_cast<std::size_t>(p.node)].name == name;
  });
}

std::int64_t units_of(const UnitGroup& group, const LayerWidth& width) {
  if (width.units > 0) return width.units;
  return std::max(std::int64_t{1}, std::int64_t{std::llround(width.times * static_cast<double>(group.units))});
}

/// The units of a group at first, and at most.
struct UnitRange {
  std::int64_t least, most;
};

/// Those of each group. `units`: how many the program's network has; the same at first and at most where nothing
/// changes.
std::vector<UnitRange> ranges_of(const Graph& graph, const std::vector<UnitGroup>& groups,
                                 const std::map<std::string, WidthRange>& widths) {
  std::vector<WidthRange> of_group(groups.size());
  std::vector<std::string> names;
  if (const auto all = widths.find("*"); all != widths.end()) of_group.assign(groups.size(), all->second);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].fixed)
      of_group[g] = {};
    else
      names.push_back(groups[g].name);
  }
  std::map<std::size_t, std::string> given;
  for (const auto& [name, width] : widths) {
    if (name == "*") continue;
    const auto found = std::ranges::find_if(groups, [&](const UnitGroup& g) { return has_layer(graph, g, name); });
    if (found == groups.end() || found->fixed)
      refuse("the layer '{}' cannot grow: {}; expected one of {}", name,
             found == groups.end() ? "the network has none of this name"
                                   : "inputs, outputs or other layers depend on its width",
             fmt::join(names, ", "));
    const auto g = static_cast<std::size_t>(found - groups.begin());
    if (const auto [other, is_new] = given.emplace(g, name); !is_new)
      refuse("the layers '{}' and '{}' have their units in common: give the width of one of them", other->second, name);
    of_group[g] = width;
  }
  std::vector<UnitRange> ranges;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const UnitGroup& group = groups[g];
    const auto [least, most] =
        ranges.emplace_back(units_of(group, of_group[g].least), units_of(group, of_group[g].most));
    if (least > group.units)
      refuse("'{}' has {} units at first, but the network has {}: give {} or fewer", group.name, least, group.units,
             group.units);
    if (most < least)
      refuse("'{}' has {} units at first, but at most {}: give {} or more", group.name, least, most, least);
  }
  if (std::ranges::none_of(ranges, [](const UnitRange& r) { return r.most > r.least; }))
    refuse("no layer can grow: give a layer more units than it has at first, e.g. \"*\" = [\"0.5x\", \"1x\"]");
  return ranges;
}

/// Finished epochs at the last change of the network; 0: none.
std::int64_t last_change(const RunState& state) {
  const auto found = state.observed.find(network_changes_entry);
  if (found == state.observed.end() || found->second.empty()) return 0;
  const double last = found->second.back();  // of a file, which may hold any number
  return last >= 0 && last <= static_cast<double>(state.epoch) ? static_cast<std::int64_t>(last) : state.epoch;
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
  std::vector<std::string> groups, gradients;
  for (const auto& [name, units] : e.units)
    groups.push_back(fmt::format("{} {} -> {}", name, e.units_before.at(name), units));
  for (const auto& [name, gradient] : e.gradients) gradients.push_back(fmt::format("{} {:.3g}", name, gradient));
  return fmt::format("growth: {} ({}); parameters {} -> {}{}", fmt::join(groups, ", "), to_string(options.method),
                     e.parameters_before, e.parameters,
                     gradients.empty()
                         ? std::string()
                         : fmt::format("; gradients of new outgoing weights: {}", fmt::join(gradients, ", ")));
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

Graph starting_network(const Graph& graph, const GrowthOptions& options) {
  const auto groups = unit_groups(graph);
  const auto ranges = ranges_of(graph, groups, options.widths);
  std::vector<std::vector<std::int64_t>> keep;
  for (const UnitRange& range : ranges) {
    auto& units = keep.emplace_back(static_cast<std::size_t>(range.least));
    std::iota(units.begin(), units.end(), 0);
  }
  return keep_units(graph, groups, keep).graph;
}

Growth::Growth(const GrowthOptions& options, const Task& task) : options_(options), task_(task) {
  for (const UnitRange& range : ranges_of(task_.graph, unit_groups(task_.graph), options_.widths))
    most_.push_back(range.most);
}

bool Growth::is_due(const RunState& state) const {
  if (!options_.epochs.empty()) return std::ranges::find(options_.epochs, state.epoch) != options_.epochs.end();
  return state.epoch - std::max({std::int64_t{0}, state.best_epoch, last_change(state)}) >= options_.patience;
}

std::vector<Widening> Growth::next_widths(const std::vector<UnitGroup>& groups) const {
  KEELSON_EXPECT(groups.size() == most_.size());
  std::vector<Widening> all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t now = groups[g].units;
    const std::int64_t next = std::llround(options_.factor * static_cast<double>(now));
    all.push_back({std::max(now, std::min(std::max(now + 1, next), most_[g])), options_.method});
  }
  return all;
}

std::vector<double> Growth::gradients(const Graph& graph, const std::vector<UnitGroup>& groups,
                                      std::vector<Widening> widening, const Parameters& whole,
                                      std::int64_t epoch) const {
  for (Widening& w : widening) w.method = WidenMethod::zero;
  const NetworkChange candidate = widen_units(graph, groups, widening, whole);
  Parameters parameters = changed_parameters(whole, candidate, {});
  const SubsetDataset data(task_.training,
                           detail::draw_probe("growth", task_.training.size(), options_.probe, task_.seed, epoch));
  SampleDecoding decoding = decoding_for(parameters.context().device());
  FedExecutor network(candidate.graph, parameters,
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
    for (const auto& [name, values] : candidate.values) {
      const auto gradient = network.executor.gradient(name);
      auto& sum = sums[name];
      sum.resize(gradient.size());
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += gradient[e];
    }
    network.input.finish();
  }
  const auto wide = unit_groups(candidate.graph);  // in the same order
  KEELSON_EXPECT(wide.size() == groups.size());
  std::vector<double> found(groups.size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (widening[g].units == groups[g].units) continue;
    Squares all;
    for (const UnitPlace& place : wide[g].places) {
      if (place.readers.empty()) continue;
      const Parameter& p = parameters.at(place.parameter);
      std::vector<std::vector<char>> is_new;
      const auto& maps = candidate.maps.at(p.name).indices;
      for (int d = 0; d < p.shape.rank(); ++d) {
        auto& of_dim = is_new.emplace_back(static_cast<std::size_t>(p.shape[d]));
        const IndexMap map = d < std::ssize(maps) ? maps[static_cast<std::size_t>(d)] : std::nullopt;
        for (std::size_t i = 0; map && i < of_dim.size(); ++i) of_dim[i] = (*map)[i] < 0;
      }
      const Squares more = squares_of(place, groups[g].units, p.shape, is_new, sums.at(p.name));
      all.sum += more.sum;
      all.count += more.count;
    }
    found[g] = all.count > 0 ? std::sqrt(all.sum / static_cast<double>(all.count)) : 0;
  }
  return found;
}

std::optional<NetworkChange> Growth::operator()(const RunState& state, const Parameters& parameters) {
  event_.reset();
  if (!is_due(state)) return std::nullopt;
  const Graph graph = with_widths(task_.graph, Topology::parse(state.topology));
  const auto groups = unit_groups(graph);
  std::vector<Widening> widening = next_widths(groups);
  const auto grows = [&](std::size_t g) { return widening[g].units > groups[g].units; };
  std::int64_t growing = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) growing += grows(g);
  if (growing == 0) return std::nullopt;
  Parameters whole(graph, parameters.context(), parameters.seed());  // without moments, which may be in shards
  for (const Parameter& p : parameters.all()) whole.set(whole.at(p.name), parameters.get(p));

  GrowthEvent event{.epoch = state.epoch, .parameters_before = graph.parameter_count()};
  if (options_.one_layer && growing > 1) {
    std::vector<double> found(groups.size());
    on_each_rank(task_.ranks, [&] {
      if (!task_.ranks || task_.ranks->rank() == 0) found = gradients(graph, groups, widening, whole, state.epoch);
    });
    if (task_.ranks) task_.ranks->broadcast(found.data(), found.size() * sizeof(double), 0);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(found) - found.begin());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (grows(g)) event.gradients[groups[g].name] = found[g];
      if (g != best) widening[g].units = groups[g].units;
    }
  }
  NetworkChange change = widen_units(graph, groups, widening, whole);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!grows(g)) continue;
    event.units_before[groups[g].name] = groups[g].units;
    event.units[groups[g].name] = widening[g].units;
  }
  event.parameters = change.graph.parameter_count();
  change.text = describe_growth(event, options_);
  event_ = event;
  return change;
}

}  // namespace keelson
