#include "apps/climate/heuristics/cyclones.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "apps/climate/heuristics/components.hpp"
#include "apps/climate/heuristics/percentile.hpp"

namespace keelson::climate {
namespace {

struct Point {
  int row = 0, column = 0;  // the column may lie beyond the grid
  friend bool operator==(const Point&, const Point&) = default;
};

/// Finds the extrema of a snapshot. Columns are periodic.
class Detector {
 public:
  Detector(const SnapshotFields& fields, const CycloneHeuristic& heuristic)
      : f_(fields), h_(heuristic), step_(kDegree * 180 / (f_.grid.rows - 1)) {
    vorticity_.resize(static_cast<std::size_t>(f_.grid.points()));
    for (int row = 1; row + 1 < f_.grid.rows; ++row)
      for (int column = 0; column < f_.grid.columns; ++column)
        vorticity_[static_cast<std::size_t>(f_.index(row, column))] = cyclonic_vorticity(row, column);
  }

  std::vector<CycloneCandidate> run() const {
    std::vector<CycloneCandidate> found;
    for (int row = 1; row + 1 < f_.grid.rows; ++row) {
      if (std::abs(f_.grid.latitude(row)) > h_.highest_latitude * kDegree) continue;
      for (int column = 0; column < f_.grid.columns; ++column) {
        if (vorticity({row, column}) < h_.vorticity || !is_strongest({row, column})) continue;
        const auto c = examine({row, column});
        const auto same = [&](const CycloneCandidate& o) { return o.row == c->row && o.column == c->column; };
        if (c && std::ranges::none_of(found, same)) found.push_back(*c);
      }
    }
    return found;
  }

 private:
  using Quantity = std::function<double(Point)>;

  double vorticity(Point p) const { return vorticity_[static_cast<std::size_t>(f_.index(p.row, p.column))]; }

  double cyclonic_vorticity(int row, int column) const {
    const double latitude = f_.grid.latitude(row), east = 2 * std::numbers::pi / f_.grid.columns;
    const double cosine = std::cos(latitude);
    const auto u_cosine = [&](int r) { return f_.at(r, column, U850) * std::cos(f_.grid.latitude(r)); };
    const double dv = (f_.at(row, column + 1, V850) - f_.at(row, column - 1, V850)) / (2 * east);
    const double du = (u_cosine(row + 1) - u_cosine(row - 1)) / (2 * step_);
    const double anticlockwise = (dv - du) / (kRadius * cosine);
    return latitude < 0 ? -anticlockwise : anticlockwise;
  }

  /// Calls visit(point, distance in degrees) for all points within `degrees` of `centre`, and for all neighbours of
  /// `centre`.
  template <class Visit>
  void around(Point centre, double degrees, const Visit& visit) const {
    const double latitude = f_.grid.latitude(centre.row), east = 2 * std::numbers::pi / f_.grid.columns;
    const int rows = std::max(1, static_cast<int>(std::ceil(degrees * kDegree / step_)));
    for (int row = std::max(0, centre.row - rows); row <= std::min(f_.grid.rows - 1, centre.row + rows); ++row) {
      const double narrow = std::max(0.05, std::cos(f_.grid.latitude(row)));
      const int columns =
          std::clamp(static_cast<int>(std::ceil(degrees * kDegree / (east * narrow))), 1, f_.grid.columns / 2);
      for (int k = -columns; k <= columns; ++k) {
        const double distance = great_circle(latitude, 0, f_.grid.latitude(row), k * east) / kDegree;
        const bool neighbour = std::abs(row - centre.row) <= 1 && std::abs(k) <= 1;
        if (distance <= degrees || neighbour) visit(Point{row, centre.column + k}, distance);
      }
    }
  }

  /// Whether no point of the window around `p` has more vorticity.
  bool is_strongest(Point p) const {
    const int rows = static_cast<int>(h_.window / 2 * kDegree / step_);
    const int columns = static_cast<int>(h_.window / 2 / 360 * f_.grid.columns);
    for (int row = std::max(0, p.row - rows); row <= std::min(f_.grid.rows - 1, p.row + rows); ++row)
      for (int k = -columns; k <= columns; ++k)
        if (vorticity({row, p.column + k}) > vorticity(p)) return false;
    return true;
  }

  /// The nearest point around `centre` where `quantity` is largest among its neighbours.
  std::optional<Point> nearest_maximum(Point centre, const Quantity& quantity) const {
    std::optional<Point> best;
    double nearest = 0;
    around(centre, h_.near, [&](Point p, double distance) {
      if ((best && distance >= nearest) || p.row == 0 || p.row + 1 == f_.grid.rows) return;
      for (int row = -1; row <= 1; ++row)
        for (int column = -1; column <= 1; ++column)
          if (quantity({p.row + row, p.column + column}) > quantity(p)) return;
      best = p;
      nearest = distance;
    });
    return best;
  }

  /// Whether `quantity` falls by `fall` in each of 16 directions, within `degrees` of `centre`. Each direction is
  /// followed at least to the next point.
  bool falls(Point centre, const Quantity& quantity, double fall, double degrees) const {
    constexpr int directions = 16;
    const double most = quantity(centre), latitude = f_.grid.latitude(centre.row);
    const double east = 2 * std::numbers::pi / f_.grid.columns, narrow = std::cos(latitude);
    const double far = std::max(degrees * kDegree, std::max(step_, east * narrow));
    for (int d = 0; d < directions; ++d) {
      const double angle = 2 * std::numbers::pi * d / directions;
      bool fallen = false;
      for (double r = step_; !fallen && r < far + step_ / 2; r += step_) {
        const double reach = std::min(r, far);
        const int row = centre.row + static_cast<int>(std::lround(reach * std::sin(angle) / step_));
        const int column = centre.column + static_cast<int>(std::lround(reach * std::cos(angle) / (east * narrow)));
        if (row < 0 || row >= f_.grid.rows) break;
        fallen = quantity({row, column}) <= most - fall;
      }
      if (!fallen) return false;
    }
    return true;
  }

  std::optional<CycloneCandidate> examine(Point strongest) const {
    const Quantity low = [&](Point p) { return -f_.at(p.row, p.column, PSL); };
    const Quantity core = [&](Point p) { return (f_.at(p.row, p.column, T200) + f_.at(p.row, p.column, T500)) / 2; };
    const Quantity thick = [&](Point p) { return f_.at(p.row, p.column, Z200) - f_.at(p.row, p.column, Z1000); };
    const auto centre = nearest_maximum(strongest, low);
    if (!centre || !falls(*centre, low, h_.pressure_rise, h_.pressure_distance)) return {};
    const auto warmest = nearest_maximum(strongest, core);
    if (!warmest || !falls(*warmest, core, h_.core_fall, h_.core_distance)) return {};
    const auto thickest = nearest_maximum(strongest, thick);
    if (!thickest || !falls(*thickest, thick, h_.thickness_fall, h_.thickness_distance)) return {};
    CycloneCandidate c;
    c.row = centre->row;
    c.column = static_cast<int>(f_.index(0, centre->column));
    c.pressure = -low(*centre);
    c.vorticity = vorticity(strongest);
    around(*centre, h_.wind_distance, [&](Point p, double distance) {
      const double wind = std::hypot(f_.at(p.row, p.column, UBOT), f_.at(p.row, p.column, VBOT));
      if (wind > c.wind) c.wind = wind, c.radius = distance;
    });
    return c.wind >= h_.wind ? std::optional(c) : std::nullopt;
  }

  const SnapshotFields& f_;
  const CycloneHeuristic& h_;
  double step_;  // distance between rows, radians
  std::vector<double> vorticity_;
};

}  // namespace

std::vector<CycloneCandidate> find_cyclones(const SnapshotFields& fields, const CycloneHeuristic& heuristic) {
  return Detector(fields, heuristic).run();
}

std::vector<std::uint8_t> cyclone_mask(const SnapshotFields& f, const std::vector<CycloneCandidate>& cyclones,
                                       const CycloneHeuristic& h) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(f.grid.points()));
  for (const auto& c : cyclones) {
    const double half = c.radius + h.margin;
    const int up = static_cast<int>(half / 180 * (f.grid.rows - 1)),
              across = static_cast<int>(half / 360 * f.grid.columns);
    const int first_row = std::max(0, c.row - up), last_row = std::min(f.grid.rows - 1, c.row + up);
    const int first_column = c.column - across, rows = last_row - first_row + 1;
    const int columns = std::min(2 * across + 1, f.grid.columns);
    std::vector<std::uint8_t> all(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (const Channel channel : {TMQ, U850, V850, PRECT}) {
      std::vector<float> box;
      for (int row = 0; row < rows; ++row)
        for (int k = 0; k < columns; ++k)
          box.push_back(static_cast<float>(f.at(first_row + row, first_column + k, channel)));
      const double threshold = percentile(box, h.percentile);
      std::vector<std::uint8_t> above(box.size());
      for (std::size_t i = 0; i < box.size(); ++i) above[i] = box[i] > threshold ? 1 : 0;
      keep_largest(above, rows, columns, Neighbours::eight);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] |= above[i];
    }
    keep_largest(all, rows, columns, Neighbours::eight);
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < columns; ++k)
        if (all[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(k)] != 0)
          mask[static_cast<std::size_t>(f.index(first_row + row, first_column + k))] = 1;
  }
  return mask;
}

}  // namespace keelson::climate
