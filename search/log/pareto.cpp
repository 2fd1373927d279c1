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

using Points = std::vector<std::vector<double>>;

/// Whether a point of the front dominates this one. All of them are lexicographically less, in rising order.
bool has_dominator(const std::vector<std::size_t>& front, const Points& points, std::size_t point) {
  if (points[point].size() == 2)
    return dominates(points[front.back()], points[point]);  // it has the least second value
  return std::any_of(front.rbegin(), front.rend(), [&](auto other) { return dominates(points[other], points[point]); });
}

/// Numbers of the points, by front. Efficient non-dominated sort with binary search (Zhang et al. 2015,
/// doi:10.1109/TEVC.2014.2308305): of two objectives n log n comparisons.
std::vector<std::vector<std::size_t>> fronts_of(const Points& points) {
  std::vector<std::size_t> rising(points.size());
  std::iota(rising.begin(), rising.end(), std::size_t{0});
  std::sort(rising.begin(), rising.end(), [&](auto a, auto b) { return points[a] < points[b]; });
  std::vector<std::vector<std::size_t>> fronts;
  for (const std::size_t point : rising) {
    // If a front has a dominator, so has each front before.
    const auto front = std::partition_point(fronts.begin(), fronts.end(),
                                            [&](const auto& f) { return has_dominator(f, points, point); });
    if (front == fronts.end())
      fronts.push_back({point});
    else
      front->push_back(point);
  }
  for (auto& front : fronts) std::sort(front.begin(), front.end());
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
