#include "apps/minerva/detector/detector.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace keelson::minerva {
namespace {

constexpr int first_module = -5, last_module = 114, first_hadron_module = 95, water_module = 14;
constexpr double front = 4293;  // of module -5 in the experiment's coordinates, from memory
constexpr double gap = plane_pitch - plane_thickness;

constexpr double scintillator_density = 1.05, carbon_density = 1.74, iron_density = 7.83, lead_density = 11.29;

struct TargetPlace {
  int first_module, last_module;
  double thickness;
};
constexpr TargetPlace targets[] = {{-1, -1, 25.7}, {4, 4, 25.7}, {9, 10, 76}, {19, 19, 8}, {22, 22, 13}};
constexpr double water_thickness = 170;

constexpr Material iron(double thickness) { return {iron_density, thickness, 13.8}; }
constexpr Material lead(double thickness) { return {lead_density, thickness, 6.4}; }
constexpr Material carbon(double thickness) { return {carbon_density, thickness, 42.7}; }

}  // namespace

double coordinate(View view, double x, double y) {
  constexpr double sine = std::numbers::sqrt3 / 2;
  return view == View::x ? x : x / 2 + (view == View::u ? sine : -sine) * y;
}

bool is_in_hexagon(double x, double y, double apothem) {
  return std::max({std::abs(x), std::abs(coordinate(View::u, x, y)), std::abs(coordinate(View::v, x, y))}) <= apothem;
}

const std::array<std::string, 11>& segment_names() {
  static const std::array<std::string, 11> names{"upstream", "target 1", "1 to 2", "target 2", "2 to 3",    "target 3",
                                                 "3 to 4",   "target 4", "4 to 5", "target 5", "downstream"};
  return names;
}

void Detector::add(const DetectorLayer& layer, double thickness) {
  DetectorLayer l = layer;
  l.begin = z_ + gap / 2;
  l.end = l.begin + thickness;
  z_ += thickness + gap;
  if (l.kind == LayerKind::target) ++segment_;
  l.segment = segment_;
  if (l.kind == LayerKind::target) ++segment_;
  if (l.kind != LayerKind::water) {
    l.code = codes_++;
    of_code_.push_back(layers_.size());
  }
  if (l.column >= 0) of_column_[static_cast<std::size_t>(l.view)].push_back(layers_.size());
  layers_.push_back(l);
}

Detector::Detector(bool water) : water_(water), z_(front) {
  int of_two_planes = 0, of_one_plane = 0;
  for (int module = first_module; module <= last_module; ++module) {
    const auto* const target = std::ranges::find_if(
        targets, [&](const TargetPlace& t) { return module >= t.first_module && module <= t.last_module; });
    if (target != std::end(targets)) {
      const int number = static_cast<int>(target - std::begin(targets)) + 1;
      if (module == target->first_module)
        add({.kind = LayerKind::target, .module = module, .number = number}, target->thickness);
      continue;
    }
    const auto plane = [&](int number, View view, bool with_column) {
      const int column = with_column ? columns(view) : -1;
      add({.module = module, .number = number, .view = view, .column = column}, plane_thickness);
    };
    if (module < first_hadron_module) {
      plane(1, of_two_planes++ % 2 == 0 ? View::u : View::v, true);
      plane(2, View::x, true);
    } else {
      constexpr std::array turns{View::x, View::u, View::x, View::v};
      plane(1, turns[static_cast<std::size_t>(of_one_plane++) % turns.size()], false);
    }
    if (module == water_module) add({.kind = LayerKind::water, .module = module}, water_thickness);
  }
}

Material Detector::material(const DetectorLayer& layer, double x, double y) const {
  if (layer.kind == LayerKind::plane) return {scintillator_density, plane_thickness};
  if (layer.kind == LayerKind::water) return {water_ ? 1.0 : 0.0, water_thickness, 36.1};
  const double thickness = layer.end - layer.begin;
  switch (layer.number) {
    case 1:
    case 5:
      return x < 0 ? iron(thickness) : lead(thickness);
    case 2:
      return x < 0 ? lead(thickness) : iron(thickness);
    case 4:
      return lead(thickness);
    default:
      break;
  }
  // Target 3: half of the hexagon is carbon, a third iron, a sixth lead.
  const double turn = std::atan2(y, x) / (2 * std::numbers::pi);
  const int sector = static_cast<int>(std::floor(6 * (turn < 0 ? turn + 1 : turn))) % 6;
  return sector < 3 ? carbon(thickness) : sector < 5 ? iron(targets[0].thickness) : lead(targets[0].thickness);
}

}  // namespace keelson::minerva
