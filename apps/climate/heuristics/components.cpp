#include "apps/climate/heuristics/components.hpp"

#include <algorithm>

namespace keelson::climate {
namespace {

struct Cell {
  int row, column;  // the column may lie beyond the grid
};

/// The neighbours of a cell: the first four have an edge in common with it.
constexpr Cell kSteps[] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}};

}  // namespace

std::vector<Component> connected_components(std::span<const std::uint8_t> mask, int rows, int columns,
                                            Neighbours neighbours, bool wrap) {
  const int steps = neighbours == Neighbours::four ? 4 : 8;
  std::vector<std::uint8_t> left(mask.begin(), mask.end());
  std::vector<Component> all;
  std::vector<Cell> open;
  const auto index = [&](int row, int column) {
    return std::int64_t{row} * columns + (column % columns + columns) % columns;
  };
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      if (left[static_cast<std::size_t>(index(row, column))] == 0) continue;
      Component c{{}, row, row, column, column};
      const auto take = [&](int r, int k) {
        left[static_cast<std::size_t>(index(r, k))] = 0;
        c.points.push_back(index(r, k));
        open.push_back({r, k});
      };
      take(row, column);
      while (!open.empty()) {
        const Cell at = open.back();
        open.pop_back();
        c.first_row = std::min(c.first_row, at.row), c.last_row = std::max(c.last_row, at.row);
        c.first_column = std::min(c.first_column, at.column), c.last_column = std::max(c.last_column, at.column);
        for (int s = 0; s < steps; ++s) {
          const int r = at.row + kSteps[s].row, k = at.column + kSteps[s].column;
          if (r < 0 || r >= rows || (!wrap && (k < 0 || k >= columns))) continue;
          if (left[static_cast<std::size_t>(index(r, k))] != 0) take(r, k);
        }
      }
      all.push_back(std::move(c));
    }
  }
  return all;
}

void keep_largest(std::vector<std::uint8_t>& mask, int rows, int columns, Neighbours neighbours) {
  const auto all = connected_components(mask, rows, columns, neighbours, false);
  std::ranges::fill(mask, std::uint8_t{0});
  if (all.empty()) return;
  const auto largest = std::ranges::max_element(all, {}, [](const Component& c) { return c.points.size(); });
  for (const std::int64_t i : largest->points) mask[static_cast<std::size_t>(i)] = 1;
}

}  // namespace keelson::climate
