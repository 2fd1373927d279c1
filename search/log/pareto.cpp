#include "search/log/pareto.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace keelson::search {
namespace {

bool dominates(const std::vector<double>& a, const std::vector<double>& b) {
  bool less = false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] > b[k]) return false;
    less |= a[k] < b[k];
  }
  return less;
}

/// Numbers of the points, by front.
std::vector<std::vector<std::size_t>> fronts_of(const std::vector<std::vector<double>>& points) {
  std::vector<std::vector<std::size_t>> dominated(points.size()), fronts(1);
  std::vector<std::size_t> dominators(points.size());
  for (std::size_t a = 0; a < points.size(); ++a)
    for (std::size_t b = 0; b < points.size(); ++b)
      if (dominates(points[a], points[b])) {
        dominated[a].push_back(b);
        ++dominators[b];
      }
  for (std::size_t a = 0; a < points.size(); ++a)
    if (dominators[a] == 0) fronts[0].push_back(a);
  while (!fronts.back().empty()) {
    std::vector<std::size_t> next;
    for (const std::size_t a : fronts.back())
      for (const std::size_t b : dominated[a])
        if (--dominators[b] == 0) next.push_back(b);
    std::sort(next.begin(), next.end());
    fronts.push_back(next);
  }
  fronts.pop_back();
  return fronts;
}

void add_crowding(const std::vector<std::vector<double>>& points, std::vector<std::size_t> front,
                  std::vector<double>& crowding) {
  for (std::size_t k = 0; k < points[front[0]].size(); ++k) {
    std::stable_sort(front.begin(), front.end(), [&](auto a, auto b) { return points[a][k] < points[b][k]; });
    const double range = points[front.back()][k] - points[front.front()][k];
    crowding[front.front()] = crowding[front.back()] = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; range > 0 && i + 1 < front.size(); ++i)
      crowding[front[i]] += (points[front[i + 1]][k] - points[front[i - 1]][k]) / range;
  }
}

}  // namespace

ParetoOrder pareto_order(const std::vector<std::vector<double>>& points) {
  ParetoOrder result{{}, std::vector<int>(points.size()), std::vector<double>(points.size())};
  if (points.empty()) return result;
  if (points[0].size() == 1) {  // the order of the values, without comparing all pairs
    result.order.resize(points.size());
    std::iota(result.order.begin(), result.order.end(), std::size_t{0});
    std::stable_sort(result.order.begin(), result.order.end(),
                     [&](auto a, auto b) { return points[a][0] < points[b][0]; });
    for (std::size_t i = 1; i < points.size(); ++i) {
      const auto before = result.order[i - 1], here = result.order[i];
      result.front[here] = result.front[before] + (points[here][0] > points[before][0] ? 1 : 0);
    }
    return result;
  }
  const auto fronts = fronts_of(points);
  for (std::size_t f = 0; f < fronts.size(); ++f) {
    add_crowding(points, fronts[f], result.crowding);
    auto sorted = fronts[f];
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](auto a, auto b) { return result.crowding[a] > result.crowding[b]; });
    for (const std::size_t i : sorted) {
      result.front[i] = static_cast<int>(f);
      result.order.push_back(i);
    }
  }
  return result;
}

}  // namespace keelson::search
