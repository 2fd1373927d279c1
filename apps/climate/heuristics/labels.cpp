#include "apps/climate/heuristics/labels.hpp"

namespace keelson::climate {

std::vector<std::int32_t> combine(const std::vector<std::uint8_t>& rivers, const std::vector<std::uint8_t>& cyclones) {
  std::vector<std::int32_t> labels(rivers.size());
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = cyclones[i] != 0 ? kCyclone : rivers[i] != 0 ? kRiver : kBackground;
  return labels;
}

std::vector<std::int32_t> heuristic_labels(const SnapshotFields& fields, const LabelHeuristics& h) {
  return combine(find_rivers(fields, h.river), cyclone_mask(fields, find_cyclones(fields, h.cyclone), h.cyclone));
}

}  // namespace keelson::climate
