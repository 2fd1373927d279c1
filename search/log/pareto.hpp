#pragma once

#include <cstddef>
#include <vector>

namespace keelson::search {

/// The order of NSGA-II (Deb, Pratap, Agarwal, Meyarivan 2002) for points of which each objective is minimised.
struct ParetoOrder {
  std::vector<std::size_t> order;  ///< numbers of the points, the best first
  std::vector<int> front;          ///< of each point: 0 for one that no other dominates
  std::vector<double> crowding;    ///< distance within the front; infinite at its ends
};
/// All points have as many values. A point dominates another one if no value is larger and one is smaller.
ParetoOrder pareto_order(const std::vector<std::vector<double>>& points);

}  // namespace keelson::search
