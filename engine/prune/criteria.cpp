#include "engine/prune/criteria.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "engine/prune/detail/slices.hpp"

namespace keelson {

namespace {

std::map<std::string, ParameterSpec> specs_of(const Graph& graph) {
  std::map<std::string, ParameterSpec> specs;
  for (const ParameterSpec& p : graph.parameters()) specs.emplace(p.name, p);
  return specs;
}

bool all_readers_add_biases(const UnitGroup& group) {
  for (const UnitPlace& p : group.places)
    for (const UnitReader& r : p.readers)
      if (r.bias.empty()) return false;
  return true;
}

/// How far a factor of a unit's incoming weights passes through to what is multiplied.
enum class Passes { nothing, positive, sign };

Passes what_passes(const Graph& graph, const UnitGroup& group) {
  static const std::set<std::string> makers{"dense", "conv", "transposed_conv"},
      any{"average_pool", "flatten", "reshape", "dropout", "concat", "last_step", "resize"},
      positive{"relu", "leaky_relu", "max_pool"};
  int made_by = 0;
  bool positive_alone = false, sign_alone = false;
  for (const UnitPlace& p : group.places) {
    if (p.node < 0) continue;
    const std::string kind = graph.nodes()[static_cast<std::size_t>(p.node)].layer->kind();
    if (makers.contains(kind))
      ++made_by;
    else if (positive.contains(kind))
      positive_alone = true;
    else if (kind == "tanh")
      sign_alone = true;
    else if (!any.contains(kind))
      return Passes::nothing;
  }
  if (made_by != 1 || (positive_alone && sign_alone)) return Passes::nothing;
  return sign_alone ? Passes::sign : Passes::positive;
}

double norm(const std::vector<double>& v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); }

/// |w_j - factor w_i|
double distance(const std::vector<double>& w_j, const std::vector<double>& w_i, double factor) {
  double sum = 0;
  for (std::size_t k = 0; k < w_j.size(); ++k) sum += (w_j[k] - factor * w_i[k]) * (w_j[k] - factor * w_i[k]);
  return std::sqrt(sum);
}

struct Twin {
  double saliency;
  UnitRemoval removal;
};

/// All pairs of which one unit can go, those of the smallest saliency first.
std::vector<Twin> twins_of(const Graph& graph, const UnitGroup& group, const std::vector<UnitFacts>& facts,
                           double degrees) {
  for (const UnitPlace& p : group.places)
    if (p.makes && !p.readers.empty()) return {};  // to change what multiplies a unit changes the unit
  const double angle = degrees * std::numbers::pi / 180;
  const Passes passes = what_passes(graph, group);
  std::vector<double> norms;
  for (const UnitFacts& f : facts) norms.push_back(norm(f.incoming));
  std::vector<Twin> all;
  const auto add = [&](std::size_t j, std::size_t i, double sign) {
    const double factor = passes == Passes::positive ? norms[j] / norms[i] : sign;
    const double apart = distance(facts[j].incoming, facts[i].incoming, factor);
    if (passes != Passes::positive && apart > 2 * std::sin(angle / 2) * std::max(norms[i], norms[j])) return;
    all.push_back({std::pow(facts[j].outgoing * apart, 2),
                   {.unit = static_cast<std::int64_t>(j),
                    .reason = UnitRemoval::Reason::twin,
                    .twin = static_cast<std::int64_t>(i),
                    .factor = factor}});
  };
  for (std::size_t j = 0; j < facts.size(); ++j)
    for (std::size_t i = j + 1; i < facts.size(); ++i) {
      if (norms[i] == 0 || norms[j] == 0) continue;
      const auto &w_j = facts[j].incoming, &w_i = facts[i].incoming;
      const double cosine = std::inner_product(w_j.begin(), w_j.end(), w_i.begin(), 0.0) / (norms[i] * norms[j]);
      const double sign = passes == Passes::sign && cosine < 0 ? -1 : 1;
      if (sign * cosine <= std::cos(angle)) continue;
      add(j, i, sign);
      add(i, j, sign);
    }
  std::ranges::stable_sort(all, {}, &Twin::saliency);
  return all;
}

}  // namespace

std::string to_string(UnitRemoval::Reason reason) {
  switch (reason) {
    case UnitRemoval::Reason::dead:
      return "dead";
    case UnitRemoval::Reason::constant:
      return "constant";
    case UnitRemoval::Reason::no_effect:
      return "no effect";
    case UnitRemoval::Reason::twin:
      return "twin";
    case UnitRemoval::Reason::redundant:
      break;
  }
  return "redundant";
}

std::vector<UnitFacts> unit_facts(const Graph& graph, const UnitGroup& group, const ParameterValues& values,
                                  const ValueStatistics& statistics) {
  const auto specs = specs_of(graph);
  std::vector<UnitFacts> facts(static_cast<std::size_t>(group.units));
  for (std::size_t u = 0; u < facts.size(); ++u) {
    UnitFacts& f = facts[u];
    f.active = false;
    double channels = 0, effect = 0, magnitude = 0, outgoing = 0;
    for (const UnitPlace& p : group.places) {
      if (p.node >= 0) continue;
      const ParameterSpec& spec = specs.at(p.parameter);
      const auto& array = values.at(p.parameter);
      if (p.makes && spec.kind == ParameterKind::trained)
        for (const auto i : p.indices[u])
          for_each_at(spec.shape, p.dim, i, [&](std::size_t e) { f.incoming.push_back(array[e]); });
      for (const UnitReader& reader : p.readers) {
        const ChannelStatistics& of_value = statistics.at(reader.value);
        for (const auto i : p.indices[u]) {
          const auto c = static_cast<std::size_t>(i);
          const double variance = of_value.variance[c], mean = of_value.mean[c];
          double squares = 0;
          for_each_at(spec.shape, p.dim, i, [&](std::size_t e) { squares += double{array[e]} * array[e]; });
          outgoing += squares;
          effect += squares * variance;
          magnitude += squares * (variance + mean * mean);
          f.variance += variance;
          f.active |= of_value.active[c] != 0;
          ++channels;
        }
      }
    }
    f.variance /= std::max(channels, 1.0);
    f.effect = std::sqrt(effect);
    f.magnitude = std::sqrt(magnitude);
    f.outgoing = std::sqrt(outgoing);
  }
  return facts;
}

std::vector<UnitRemoval> units_to_remove(const Graph& graph, const UnitGroup& group,
                                         const std::vector<UnitFacts>& facts, const UnitCriteria& criteria,
                                         std::int64_t most) {
  using Reason = UnitRemoval::Reason;
  std::vector<UnitRemoval> removals;
  std::vector<char> taken(facts.size());  // goes, or stays in the place of a twin
  const auto remove = [&](const UnitRemoval& r) {
    if (std::ssize(removals) >= most || taken[static_cast<std::size_t>(r.unit)]) return;
    if (r.twin >= 0) taken[static_cast<std::size_t>(r.twin)] = 1;
    taken[static_cast<std::size_t>(r.unit)] = 1;
    removals.push_back(r);
  };
  const bool by_mean = all_readers_add_biases(group);
  const auto effect_of = [&](const UnitFacts& f) { return by_mean ? f.effect : f.magnitude; };
  double variance = 0;
  std::vector<double> effects;
  for (const UnitFacts& f : facts) {
    variance += f.variance / static_cast<double>(facts.size());
    if (f.active) effects.push_back(effect_of(f));
  }
  std::ranges::sort(effects);
  const double median = effects.empty() ? 0 : effects[effects.size() / 2];
  std::vector<std::size_t> order(facts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t u) { return effect_of(facts[u]); });
  for (const auto reason : {Reason::dead, Reason::constant, Reason::no_effect})
    for (const auto u : order) {
      const UnitFacts& f = facts[u];
      const bool goes = reason == Reason::dead       ? !f.active
                        : reason == Reason::constant ? by_mean && f.variance < criteria.constant * variance
                                                     : effect_of(f) < criteria.no_effect * median;
      if (goes) remove({.unit = static_cast<std::int64_t>(u), .reason = reason});
    }
  if (std::ssize(removals) >= most) return removals;
  for (const Twin& t : twins_of(graph, group, facts, criteria.angle)) {
    const auto stays = static_cast<std::size_t>(t.removal.twin);
    const bool goes_already = std::ranges::find(removals, t.removal.twin, &UnitRemoval::unit) != removals.end();
    if (!goes_already && facts[stays].active) remove(t.removal);
  }
  return removals;
}

void compensate(const UnitGroup& group, const std::vector<UnitRemoval>& removals, const ValueStatistics& statistics,
                const std::map<std::string, Shape>& shapes, ParameterValues& values) {
  for (const UnitRemoval& r : removals) {
    if (r.reason == UnitRemoval::Reason::dead) continue;
    for (const UnitPlace& p : group.places) {
      if (p.readers.empty()) continue;
      const Shape& shape = shapes.at(p.parameter);
      auto& array = values.at(p.parameter);
      const auto& goes = p.indices[static_cast<std::size_t>(r.unit)];
      for (std::size_t k = 0; k < goes.size(); ++k) {
        if (r.reason == UnitRemoval::Reason::twin) {
          const std::int64_t stays = p.indices[static_cast<std::size_t>(r.twin)][k];
          std::vector<std::size_t> to;
          for_each_at(shape, p.dim, stays, [&](std::size_t e) { to.push_back(e); });
          std::size_t at = 0;
          for_each_at(shape, p.dim, goes[k],
                      [&](std::size_t e) { array[to[at++]] += static_cast<float>(r.factor * array[e]); });
          continue;
        }
        for (const UnitReader& reader : p.readers) {
          if (reader.bias.empty()) continue;
          auto& bias = values.at(reader.bias);
          std::vector<double> more(bias.size());
          const double mean = statistics.at(reader.value).mean[static_cast<std::size_t>(goes[k])];
          for_each_at(shape, p.dim, goes[k], [&](std::size_t e) {
            more[static_cast<std::size_t>(index_along(shape, reader.dst_dim, e))] += mean * array[e];
          });
          for (std::size_t b = 0; b < bias.size(); ++b) bias[b] += static_cast<float>(more[b]);
        }
      }
    }
  }
}

}  // namespace keelson
