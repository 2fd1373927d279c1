#include "engine/train/apoptosis.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/exact_sum.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/subset_dataset.hpp"
#include "engine/train/detail/draw_probe.hpp"
#include "engine/train/fed_executor.hpp"

namespace keelson {

/// The sums of the channels of a value.
struct ChannelSums {
  std::int64_t per_sample = 0;  ///< elements of a channel
  std::vector<ExactSum> sums, squares;
};

namespace {

std::string tap_of(int node) { return fmt::format("apoptosis {}", node); }

void add_batch(const std::vector<float>& values, std::int64_t rows, ChannelSums& into) {
  const auto channels = std::ssize(into.sums);
  const std::int64_t pixels = std::ssize(values) / std::max<std::int64_t>(rows * channels, 1);
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < pixels; ++i) {
        const double v = values[static_cast<std::size_t>((r * channels + c) * pixels + i)];
        sum += v;
        squares += v * v;
      }
    into.sums[static_cast<std::size_t>(c)].add(sum);
    into.squares[static_cast<std::size_t>(c)].add(squares);
  }
}

std::string describe_event(const ApoptosisEvent& e) {
  std::vector<std::string> groups, reasons;
  for (const auto& [name, left] : e.units)
    groups.push_back(fmt::format("{} {} -> {}", name, left + e.lost.at(name), left));
  for (const auto& [reason, count] : e.reasons) reasons.push_back(fmt::format("{} {}", count, reason));
  return fmt::format("apoptosis: {} ({}); parameters {} -> {}; loss on the probe {:.5g} -> {:.5g}{}",
                     fmt::join(groups, ", "), fmt::join(reasons, ", "), e.parameters_before, e.parameters,
                     e.loss_before, e.loss, e.undone > 0 ? fmt::format("; undone before: {}", e.undone) : "");
}

}  // namespace

ApoptosisOptions ApoptosisOptions::of(const std::string& name) {
  if (name == "conservative") return {.criteria = {.constant = 1e-4, .no_effect = 1e-3, .angle = 10}, .share = 0.05};
  if (name == "normal") return {.criteria = {.constant = 1e-3, .no_effect = 1e-2, .angle = 20}, .share = 0.1};
  if (name == "aggressive") return {.criteria = {.constant = 1e-2, .no_effect = 1e-1, .angle = 30}, .share = 0.2};
  refuse("apoptosis '{}': expected conservative, normal or aggressive", name);
}

/// A network on the probe's samples.
struct Apoptosis::Probe {
  const ApoptosisOptions& options;
  const Task& task;
  SubsetDataset data;

  /// The mean loss. `statistics` (may be null): gets those of the values `taps`.
  double run(const Graph& graph, Parameters& parameters, const std::set<int>& taps, ValueStatistics* statistics) {
    Graph tapped = with_widths(graph, Topology(graph));
    std::map<int, ChannelSums> sums;
    for (const int node : taps) {
      const Shape& shape = graph.nodes()[static_cast<std::size_t>(node)].shape.shape;
      const auto channels = static_cast<std::size_t>(shape[1]);
      sums[node] = {shape.elements() / shape[1], std::vector<ExactSum>(channels), std::vector<ExactSum>(channels)};
      tapped.set_output(tap_of(node), {&tapped, node});
    }
    std::vector<ExactSum> loss(1);
    on_each_rank(task.ranks, [&] { add_samples(tapped, parameters, sums, loss[0]); });
    ExactSum::reduce(loss, task.ranks);
    for (auto& [node, s] : sums) {
      ExactSum::reduce(s.sums, task.ranks);
      ExactSum::reduce(s.squares, task.ranks);
      ChannelStatistics& of_value = (*statistics)[node];
      const auto count = static_cast<double>(s.per_sample * data.size());
      for (std::size_t c = 0; c < s.sums.size(); ++c) {
        const double mean = s.sums[c].value() / count, squares = s.squares[c].value();
        of_value.mean.push_back(mean);
        of_value.variance.push_back(std::max(squares / count - mean * mean, 0.0));
        of_value.active.push_back(squares > 0);
      }
    }
    return loss[0].value() / static_cast<double>(data.size());
  }

  void add_samples(const Graph& graph, Parameters& parameters, std::map<int, ChannelSums>& sums, ExactSum& loss) {
    Context& context = parameters.context();
    SampleDecoding decoding = decoding_for(context.device());
    FedExecutor network(graph, parameters,
                        {.batch = options.probe_batch, .training = false, .precision = task.precision}, data, decoding);
    Loader loader(data, {.batch = options.probe_batch,
                         .rank = task.ranks ? task.ranks->rank() : 0,
                         .ranks = task.ranks ? task.ranks->size() : 1,
                         .shuffle = false,
                         .threads = task.threads,
                         .decoding = decoding});
    loader.start_epoch(0);
    std::vector<float> values;
    while (const Batch* batch = loader.next()) {
      if (batch->count == 0) continue;
      network.input.feed(*batch);
      network.executor.forward({.inverse_samples = 1});
      loss.add(network.executor.loss());
      for (auto& [node, s] : sums) {
        const Tensor t = network.executor.output(tap_of(node));
        values.resize(static_cast<std::size_t>(t.elements()));
        context.read_plain(t, values.data());
        const std::int64_t rows = graph.nodes()[static_cast<std::size_t>(node)].shape.rows_per_sample();
        values.resize(values.size() / static_cast<std::size_t>(options.probe_batch) *
                      static_cast<std::size_t>(batch->count));
        add_batch(values, rows * batch->count, s);
      }
      network.input.finish();
    }
  }
};

std::optional<NetworkChange> Apoptosis::operator()(const RunState& state, const Parameters& parameters) {
  event_.reset();
  if (state.epoch + 1 < options_.first_epoch ||
      static_cast<double>(state.epoch) > options_.last * static_cast<double>(task_.epochs))
    return std::nullopt;
  const Graph graph = with_widths(task_.graph, Topology::parse(state.topology));
  const auto groups = unit_groups(graph);
  Probe probe{options_,
              task_,
              {task_.training,
               detail::draw_probe("apoptosis", task_.training.size(), options_.probe, task_.seed, state.epoch)}};

  std::set<int> taps;
  for (const UnitGroup& group : groups)
    for (const UnitPlace& p : group.places)
      for (const UnitReader& r : p.readers)
        if (!group.fixed && group.units > options_.least_units) taps.insert(r.value);
  if (taps.empty()) return std::nullopt;
  Parameters whole(graph, parameters.context(), parameters.seed());  // without moments, which may be in shards
  std::map<std::string, Shape> shapes;
  ParameterValues before;
  for (const Parameter& p : parameters.all()) {
    shapes[p.name] = p.shape;
    before[p.name] = parameters.get(p);
    whole.set(whole.at(p.name), before[p.name]);
  }
  ValueStatistics statistics;
  ApoptosisEvent event{.epoch = state.epoch, .parameters_before = graph.parameter_count()};
  event.loss_before = probe.run(graph, whole, taps, &statistics);

  std::vector<std::vector<UnitRemoval>> chosen;
  std::size_t most_chosen = 0;
  for (const UnitGroup& group : groups) {
    auto& removals = chosen.emplace_back();
    const auto share = static_cast<std::int64_t>(options_.share * static_cast<double>(group.units));
    const std::int64_t most = std::min(std::max<std::int64_t>(share, 1), group.units - options_.least_units);
    if (group.fixed || most < 1) continue;
    removals = units_to_remove(graph, group, unit_facts(graph, group, before, statistics), options_.criteria, most);
    most_chosen = std::max(most_chosen, removals.size());
  }
  for (int tried = 0; tried < options_.most_tries && most_chosen > 0; ++tried) {
    ParameterValues values = before;
    std::vector<std::vector<std::int64_t>> keep;
    event.units.clear();
    event.lost.clear();
    event.reasons.clear();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      compensate(groups[g], chosen[g], statistics, shapes, values);
      std::set<std::int64_t> gone;
      for (const UnitRemoval& r : chosen[g]) {
        gone.insert(r.unit);
        ++event.reasons[to_string(r.reason)];
      }
      auto& stay = keep.emplace_back();
      for (std::int64_t u = 0; u < groups[g].units; ++u)
        if (!gone.contains(u)) stay.push_back(u);
      if (gone.empty()) continue;
      event.units[groups[g].name] = std::ssize(stay);
      event.lost[groups[g].name] = std::ssize(gone);
    }
    NetworkChange change = keep_units(graph, groups, keep);
    std::set<std::string> compensated;
    for (Parameter& p : whole.all()) {
      whole.set(p, values.at(p.name));
      if (values.at(p.name) != before.at(p.name)) compensated.insert(p.name);
    }
    Parameters small = whole.remap(change.graph, change.maps);
    event.loss = probe.run(change.graph, small, {}, nullptr);
    if (event.loss <= event.loss_before + options_.rise * std::abs(event.loss_before)) {
      for (const std::string& name : compensated) change.values[name] = small.get(small.at(name));
      event.parameters = change.graph.parameter_count();
      change.text = describe_event(event);
      event_ = event;
      return change;
    }
    ++event.undone;
    most_chosen /= 2;
    for (auto& removals : chosen) removals.resize(removals.size() / 2);
  }
  return std::nullopt;
}

}  // namespace keelson
