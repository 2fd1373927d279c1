#include "engine/train/apoptosis.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "engine/base/exact_sum.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/subset_dataset.hpp"
#include "engine/prune/redundancy.hpp"
#include "engine/train/detail/draw_probe.hpp"
#include "engine/train/fed_executor.hpp"

namespace keelson {

namespace {

std::string tap_of(int node) { return fmt::format("apoptosis {}", node); }

/// Places of a sample's value that are looked at: of (rows, channels, pixels) `count` of the rows * pixels.
struct Places {
  std::int64_t rows, channels, pixels = 1, count = 1;

  /// For some 2048 to 16384 places of all samples together.
  Places(const ValueShape& of, std::int64_t samples) : rows(of.rows_per_sample()), channels(of.shape[1]) {
    for (int d = 2; d < of.shape.rank(); ++d) pixels *= of.shape[d];
    const std::int64_t wanted = std::clamp<std::int64_t>(8 * channels, 2048, 16384);
    count = std::min(rows * pixels, (wanted + samples - 1) / samples);
  }
  /// Of so many values of a sample, those of the channels at `count` places that differ from sample to sample.
  void look(const float* values, std::int64_t sample, float* observed) const {
    const std::int64_t all = rows * pixels;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t place = (k * all / count + sample * 7919) % all;
      const float* const first = values + place / pixels * channels * pixels + place % pixels;
      for (std::int64_t c = 0; c < channels; ++c) *observed++ = first[c * pixels];
    }
  }
};

/// At most `count`, so that as many units stay as a multiple of `multiple` says. Groups of few units take any number.
std::int64_t on_multiple(std::int64_t units, std::int64_t count, std::int64_t multiple) {
  if (units <= 2 * multiple) return count;
  const std::int64_t stay = (units - count + multiple - 1) / multiple * multiple;
  return std::max<std::int64_t>(units - stay, 0);
}

/// How many units a group may lose: `share` of them, rounded up to a number after which a multiple is left.
std::int64_t most_of(std::int64_t units, const ApoptosisOptions& o) {
  const auto share = std::max<std::int64_t>(static_cast<std::int64_t>(o.share * static_cast<double>(units)), 1);
  const std::int64_t least = units > 2 * o.multiple ? (units - share) / o.multiple * o.multiple : units - share;
  return units - std::max(least, o.least_units);
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

/// Samples of the training data: `observed` for the choice of units, and `judged`, which have no part in the choice.
struct Probe {
  std::vector<std::int64_t> observed, judged;

  Probe(const ApoptosisOptions& o, const Apoptosis::Task& task, std::int64_t epoch) {
    const std::int64_t most = std::max<std::int64_t>(task.training.size() / 4, 64);
    const auto all =
        detail::draw_probe("apoptosis", task.training.size(), std::min(o.probe + o.probe / 2, most), task.seed, epoch);
    for (std::size_t i = 0; i < all.size(); ++i) (i % 3 == 2 ? judged : observed).push_back(all[i]);
    if (judged.empty()) judged = observed;
  }
};

/// A network whose loss is computed on some samples, and values of which can be observed.
class ProbeNetwork {
 public:
  /// `places`: those of the values to observe, by node. Collective.
  ProbeNetwork(const Apoptosis::Task& task, const Graph& graph, Parameters& parameters, std::map<int, Places> places)
      : task_(task), parameters_(parameters), tapped_(with_widths(graph, Topology(graph))), places_(std::move(places)) {
    for (const auto& entry : places_) tapped_.set_output(tap_of(entry.first), {&tapped_, entry.first});
  }

  /// The mean loss. `observations` (may be null): gets what the values are. Collective.
  double run(const std::vector<std::int64_t>& samples, ValueObservations* observations) {
    const SubsetDataset data(task_.training, samples);
    if (observations)
      for (const auto& [node, p] : places_) {
        const std::int64_t rows = data.size() * p.count;
        (*observations)[node] = {rows, std::vector<float>(static_cast<std::size_t>(rows * p.channels))};
      }
    std::vector<ExactSum> loss(1);
    on_each_rank(task_.ranks, [&] { add_samples(data, observations, loss[0]); });
    ExactSum::reduce(loss, task_.ranks);
    // Each sample's rows are zeros on all ranks but one.
    if (observations && task_.ranks)
      for (auto& [node, o] : *observations)
        task_.ranks->on_host().allreduce(o.values.data(), o.values.size(), Reduction::sum);
    return loss[0].value() / static_cast<double>(data.size());
  }

 private:
  void add_samples(const Dataset& data, ValueObservations* observations, ExactSum& loss) {
    Context& context = parameters_.context();
    if (!network_) {
      decoding_ = decoding_for(context.device());
      network_.emplace(tapped_, parameters_,
                       PlanOptions{.batch = task_.batch, .training = false, .precision = task_.precision}, data,
                       decoding_);
    }
    Loader loader(data, {.batch = task_.batch,
                         .rank = task_.ranks ? task_.ranks->rank() : 0,
                         .ranks = task_.ranks ? task_.ranks->size() : 1,
                         .shuffle = false,
                         .threads = task_.threads,
                         .decoding = decoding_});
    loader.start_epoch(0);
    std::vector<float> values;
    while (const Batch* batch = loader.next()) {
      if (batch->count == 0) continue;
      network_->input.feed(*batch);
      network_->executor.forward({.inverse_samples = 1});
      loss.add(network_->executor.loss());
      for (const auto& [node, p] : places_) {
        if (!observations) break;
        const Tensor t = network_->executor.output(tap_of(node));
        values.resize(static_cast<std::size_t>(t.elements()));
        context.read_plain(t, values.data());
        const std::int64_t per_sample = p.rows * p.channels * p.pixels;
        for (std::int64_t s = 0; s < batch->count; ++s)
          p.look(values.data() + s * per_sample, batch->indices[s],
                 (*observations)[node].values.data() + batch->indices[s] * p.count * p.channels);
      }
      network_->input.finish();
    }
  }

  const Apoptosis::Task& task_;
  Parameters& parameters_;
  Graph tapped_;
  std::map<int, Places> places_;
  SampleDecoding decoding_;
  std::optional<FedExecutor> network_;  ///< made by the first run
};

/// A unit that can go.
struct Candidate {
  UnitRemoval removal;
  double error;  ///< of this unit and all before it together, as UnitRedundancy::Candidate::error
};

/// What an event knows of the network.
struct Observed {
  const ApoptosisOptions& options;
  const Graph& graph;
  std::map<std::string, Shape> shapes;  ///< of parameters
  ParameterValues values;               ///< before the event
  ValueObservations observations;
  ValueStatistics statistics;
};

/// What a group can lose: units that the criteria find, and then redundant ones.
class GroupCandidates {
 public:
  /// The arguments must outlive this.
  GroupCandidates(const UnitGroup& group, const Observed& observed) : group_(group), observed_(observed) {
    const ApoptosisOptions& options = observed.options;
    const std::int64_t most = most_of(group.units, options);
    if (group.fixed || most < 1) return;
    const auto removals =
        units_to_remove(observed.graph, group, unit_facts(observed.graph, group, observed.values, observed.statistics),
                        options.criteria, most);
    double error = 0;
    ParameterValues rest = observed.values;
    std::vector<std::int64_t> gone;
    if (!removals.empty()) {
      const UnitRedundancy whole(group, observed.shapes, rest, observed.observations);
      for (const UnitRemoval& r : removals) {
        all_.push_back({r, error += whole.error_of(r)});
        gone.push_back(r.unit);
      }
      compensate(group, removals, observed.statistics, observed.shapes, rest);
    }
    if (!options.redundant || std::ssize(all_) == most) return;
    redundancy_.emplace(group, observed.shapes, rest, observed.observations, gone);
    for (const auto& c : redundancy_->ranked(most - std::ssize(removals)))
      all_.push_back({{.unit = c.unit, .reason = UnitRemoval::Reason::redundant}, error + c.error});
  }

  double most_error() const { return all_.empty() ? 0 : all_.back().error; }

  /// Those whose error is no larger, so many that the group keeps a multiple.
  std::vector<UnitRemoval> within(double error) const {
    const auto count = std::ranges::find_if(all_, [&](const Candidate& c) { return c.error > error; }) - all_.begin();
    std::vector<UnitRemoval> removals;
    for (std::int64_t i = 0; i < on_multiple(group_.units, count, observed_.options.multiple); ++i)
      removals.push_back(all_[static_cast<std::size_t>(i)].removal);
    return removals;
  }

  /// Changes `values` so that the whole network computes what it would compute without these units of within().
  void do_without(const std::vector<UnitRemoval>& removals, ParameterValues& values) const {
    std::vector<UnitRemoval> found;
    std::vector<std::int64_t> gone, redundant;
    for (const UnitRemoval& r : removals) {
      gone.push_back(r.unit);
      if (r.reason == UnitRemoval::Reason::redundant)
        redundant.push_back(r.unit);
      else
        found.push_back(r);
    }
    compensate(group_, found, observed_.statistics, observed_.shapes, values);
    if (!redundant.empty()) redundancy_->replace(redundant, values);
    silence(group_, gone, observed_.shapes, values);
  }

 private:
  const UnitGroup& group_;
  const Observed& observed_;
  std::vector<Candidate> all_;
  std::optional<UnitRedundancy> redundancy_;  ///< of the network without the units that the criteria find
};

}  // namespace

ApoptosisOptions ApoptosisOptions::of(const std::string& name) {
  if (name == "conservative")
    return {.criteria = {.constant = 1e-4, .no_effect = 1e-3, .angle = 10}, .share = 0.1, .rise = 0.0005};
  if (name == "normal")
    return {.criteria = {.constant = 1e-3, .no_effect = 1e-2, .angle = 20}, .share = 0.2, .rise = 0.002};
  if (name == "aggressive")
    return {.criteria = {.constant = 1e-2, .no_effect = 1e-1, .angle = 30}, .share = 0.3, .rise = 0.01};
  refuse("apoptosis '{}': expected conservative, normal or aggressive", name);
}

std::optional<NetworkChange> Apoptosis::operator()(const RunState& state, const Parameters& parameters) {
  event_.reset();
  const double done = static_cast<double>(state.epoch) / static_cast<double>(task_.epochs);
  if (state.epoch + 1 < options_.first_epoch || done < options_.first || done > options_.last) return std::nullopt;
  const Graph graph = with_widths(task_.graph, Topology::parse(state.topology));
  const auto groups = unit_groups(graph);
  const Probe samples(options_, task_, state.epoch);
  std::map<int, Places> places;
  for (const UnitGroup& group : groups)
    for (const UnitPlace& p : group.places)
      for (const UnitReader& r : p.readers)
        if (!group.fixed && most_of(group.units, options_) > 0)
          places.try_emplace(r.value, graph.nodes()[static_cast<std::size_t>(r.value)].shape,
                             std::ssize(samples.observed));
  if (places.empty()) return std::nullopt;

  Parameters whole(graph, parameters.context(), parameters.seed());  // without moments, which may be in shards
  Observed observed{options_, graph};
  for (const Parameter& p : parameters.all()) {
    observed.shapes[p.name] = p.shape;
    observed.values[p.name] = parameters.get(p);
    whole.set(whole.at(p.name), observed.values[p.name]);
  }
  ProbeNetwork network(task_, graph, whole, std::move(places));
  network.run(samples.observed, &observed.observations);
  observed.statistics = statistics_of(observed.observations);
  ApoptosisEvent event{.epoch = state.epoch, .parameters_before = graph.parameter_count()};
  event.loss_before = network.run(samples.judged, nullptr);
  std::deque<GroupCandidates> candidates;
  double limit = 0;
  for (const UnitGroup& group : groups) limit = std::max(limit, candidates.emplace_back(group, observed).most_error());

  for (int tried = 0; tried < options_.most_tries; ++tried, limit /= 4) {
    ParameterValues values = observed.values;
    std::vector<std::vector<std::int64_t>> keep;
    event.units.clear();
    event.lost.clear();
    event.reasons.clear();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto removals = candidates[g].within(limit);
      candidates[g].do_without(removals, values);
      std::set<std::int64_t> gone;
      for (const UnitRemoval& r : removals) {
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
    if (event.units.empty()) break;
    for (Parameter& p : whole.all()) whole.set(p, values.at(p.name));
    event.loss = network.run(samples.judged, nullptr);
    if (event.loss <= event.loss_before + options_.rise * std::abs(event.loss_before)) {
      NetworkChange change = keep_units(graph, groups, keep);
      const Parameters small = whole.remap(change.graph, change.maps);
      for (const Parameter& p : small.all())
        if (values.at(p.name) != observed.values.at(p.name)) change.values[p.name] = small.get(p);
      event.parameters = change.graph.parameter_count();
      change.text = describe_event(event);
      event_ = event;
      return change;
    }
    ++event.undone;
  }
  return std::nullopt;
}

}  // namespace keelson
