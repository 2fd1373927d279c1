#include "apps/search/compare_methods.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson::search {
namespace {

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

/// Ranks from 1, equal values share the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2;
    begin = end;
  }
  return ranks;
}

/// Regret of each seed after so many trainings; a search that ended before keeps its last.
std::vector<double> regrets_at(const Runs& runs, std::size_t trainings) {
  std::vector<double> all;
  for (const Course& c : runs) all.push_back(c.regret[std::min(trainings, c.regret.size()) - 1]);
  return all;
}

std::size_t longest(const Runs& runs) {
  std::size_t most = 0;
  for (const Course& c : runs) most = std::max(most, c.regret.size());
  return most;
}

MethodSummary summary_of_runs(const std::string& name, const Runs& runs, double goal) {
  MethodSummary m;
  m.name = name;
  constexpr std::array parts = {0.25, 0.5, 0.75};
  for (std::size_t n = 1; n <= longest(runs); ++n) {
    const auto regrets = regrets_at(runs, n);
    auto& quartiles = m.course.emplace_back();
    for (std::size_t q = 0; q < parts.size(); ++q) quartiles[q] = quantile(regrets, parts[q]);
    if (!m.needed && quartiles[1] <= goal) m.needed = static_cast<double>(n);
  }
  m.regret = m.course.back();
  return m;
}

}  // namespace

double wilcoxon(const std::vector<double>& differences) {
  std::vector<double> sizes, signs;
  for (const double d : differences)
    if (d != 0) {
      sizes.push_back(std::abs(d));
      signs.push_back(d > 0 ? 1 : 0);
    }
  const auto n = static_cast<double>(sizes.size());
  if (sizes.empty()) return 1;
  const auto ranks = ranks_of(sizes);
  const double positive = std::inner_product(ranks.begin(), ranks.end(), signs.begin(), 0.0);
  const double mean = n * (n + 1) / 4;
  double ties = 0;
  std::map<double, double> equal;
  for (const double r : ranks) ++equal[r];
  for (const auto& [rank, count] : equal) ties += count * count * count - count;
  const double variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  const double least = std::min(positive, n * (n + 1) / 2 - positive);
  const double z = (least - mean + (least < mean ? 0.5 : 0)) / std::sqrt(variance);
  return std::min(1.0, std::erfc(-z / std::sqrt(2.0)));
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    corrected[order[i]] = most;
  }
  return corrected;
}

Comparison compare_runs(const std::map<std::string, Runs>& runs, const std::string& baseline) {
  const auto base = runs.find(baseline);
  if (base == runs.end()) refuse("{} must be among the methods, as the baseline", baseline);
  Comparison c;
  c.baseline = baseline;
  c.seeds = std::ssize(base->second);
  c.trainings = static_cast<std::int64_t>(longest(base->second));
  const double goal = quantile(regrets_at(base->second, longest(base->second)), 0.5);
  std::map<std::string, std::vector<double>> ends;
  for (const auto& [name, all] : runs) {
    if (std::ssize(all) != c.seeds) refuse("{} has {} seeds, {} has {}", name, all.size(), baseline, c.seeds);
    c.methods.push_back(summary_of_runs(name, all, goal));
    ends[name] = regrets_at(all, longest(all));
  }
  for (std::size_t seed = 0; seed < static_cast<std::size_t>(c.seeds); ++seed) {
    std::vector<double> values;
    for (const MethodSummary& m : c.methods) values.push_back(ends[m.name][seed]);
    const auto ranks = ranks_of(values);
    for (std::size_t k = 0; k < c.methods.size(); ++k)
      c.methods[k].mean_rank += ranks[k] / static_cast<double>(c.seeds);
  }
  std::stable_sort(c.methods.begin(), c.methods.end(), [](auto& a, auto& b) { return a.mean_rank < b.mean_rank; });
  std::vector<double> p;
  for (std::size_t k = 1; k < c.methods.size(); ++k) {
    const auto &a = ends[c.methods[0].name], &b = ends[c.methods[k].name];
    std::vector<double> differences;
    PairTest test{c.methods[0].name, c.methods[k].name, 0, c.seeds};
    for (std::size_t seed = 0; seed < a.size(); ++seed) {
      differences.push_back(a[seed] - b[seed]);
      test.better += a[seed] < b[seed] ? 1 : 0;
    }
    p.push_back(wilcoxon(differences));
    c.tests.push_back(test);
  }
  const auto corrected = holm(p);
  for (std::size_t k = 0; k < p.size(); ++k) c.tests[k].p = corrected[k];
  return c;
}

}  // namespace keelson::search
