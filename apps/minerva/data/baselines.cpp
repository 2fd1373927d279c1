#include "apps/minerva/data/baselines.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::minerva {

RuleVertex rule_vertex(const Detector& detector, const Energies& event) {
  const auto& energies = event.views;
  RuleVertex found;
  for (std::size_t v = 0; v < energies.size(); ++v) {
    const auto view = static_cast<View>(v);
    const std::int64_t columns = std::ssize(energies[v]) / strips;
    if (columns > detector.columns(view))
      refuse("images of {} planes in the view {}: the detector has {} there", columns, view_names[v],
             detector.columns(view));
    for (std::int64_t c = 0; c < columns; ++c) {
      const DetectorLayer& plane = detector.of_column(view, static_cast<int>(c));
      if (found.first_plane && plane.begin >= found.first_plane->begin) break;
      for (std::int64_t s = 0; s < strips; ++s)
        if (energies[v][static_cast<std::size_t>(s * columns + c)] > 0) {
          found.first_plane = &plane;
          break;
        }
    }
  }
  if (!found.first_plane) return found;
  const auto at = found.first_plane - detector.layers().data();
  const DetectorLayer* before = at > 0 ? found.first_plane - 1 : nullptr;
  found.passive = before && before->kind != LayerKind::plane ? before : found.first_plane;
  return found;
}

Baselines measure_baselines(const EventDataset& events, Communicator& world) {
  const Detector detector;
  std::int64_t right[2] = {0, 0};
  on_each_rank(&world, [&] {
    for (std::int64_t i = world.rank(); i < events.size(); i += world.size()) {
      const Energies event = events.energies(i);
      const RuleVertex rule = rule_vertex(detector, event);
      if (!rule.first_plane) continue;
      right[0] += events.class_of(rule.first_plane->code, rule.first_plane->segment) == event.truth;
      right[1] += events.class_of(rule.passive->code, rule.passive->segment) == event.truth;
    }
  });
  world.allreduce(right, 2, Reduction::sum);
  const auto all = static_cast<double>(events.size());
  return {static_cast<double>(right[0]) / all, static_cast<double>(right[1]) / all};
}

}  // namespace keelson::minerva
