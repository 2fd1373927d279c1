#include "apps/climate/heuristics/rivers.hpp"

#include <algorithm>
#include <cmath>

#include "apps/climate/heuristics/percentile.hpp"

namespace keelson::climate {
namespace {

constexpr double kAreaRadius = 6.17e6;  // m; as in the published code

std::vector<float> damped_measure(const SnapshotFields& f, const RiverHeuristic& h) {
  std::vector<float> values(static_cast<std::size_t>(f.grid.points()));
  for (int row = 0; row < f.grid.rows; ++row) {
    const double latitude = f.grid.latitude(row) / kDegree;
    const double damping = -std::expm1(-square(latitude) / (2 * square(h.damping)));
    for (int column = 0; column < f.grid.columns; ++column) {
      const double measure = h.measure == RiverHeuristic::Measure::water
                                 ? f.at(row, column, TMQ)
                                 : std::abs(f.at(row, column, V850)) * f.at(row, column, QREFHT);
      values[static_cast<std::size_t>(f.index(row, column))] = static_cast<float>(measure * damping);
    }
  }
  return values;
}

double area(const Component& c, const Grid& grid) {
  const double cell = std::numbers::pi / (grid.rows - 1) * 2 * std::numbers::pi / grid.columns;
  double sum = 0;
  for (const std::int64_t i : c.points) sum += cell * std::cos(grid.latitude(static_cast<int>(i / grid.columns)));
  return square(kAreaRadius) * sum;
}

}  // namespace

bool is_river(const Component& c, const Grid& grid, const RiverHeuristic& h) {
  if (c.first_row == c.last_row || c.first_column == c.last_column) return false;
  const double south = grid.latitude(c.first_row), north = grid.latitude(c.last_row);
  const int columns = std::min(c.last_column - c.first_column, grid.columns - 1);
  const double length = kRadius * (north - south);
  const double diagonal = kRadius * great_circle(south, 0, north, grid.longitude(columns));
  return diagonal > h.diagonal && area(c, grid) / length < h.width;
}

std::vector<std::uint8_t> find_rivers(const SnapshotFields& f, const RiverHeuristic& h) {
  const auto measure = damped_measure(f, h);
  const double threshold =
      h.measure == RiverHeuristic::Measure::water ? h.threshold : percentile(measure, h.percentile);
  std::vector<std::uint8_t> above(measure.size()), rivers(measure.size());
  for (std::size_t i = 0; i < measure.size(); ++i) above[i] = measure[i] > threshold ? 1 : 0;
  for (const auto& c : connected_components(above, f.grid.rows, f.grid.columns, Neighbours::four, h.wrap)) {
    if (!is_river(c, f.grid, h)) continue;
    for (const std::int64_t i : c.points) rivers[static_cast<std::size_t>(i)] = 1;
  }
  return rivers;
}

}  // namespace keelson::climate
