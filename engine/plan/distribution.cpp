#include "engine/plan/distribution.hpp"

#include <fmt/format.h>

namespace keelson {

Distribution Distribution::partial_in_groups(int group, Axes axes) {
  Distribution d;
  d.group = group;
  for (const Axis axis : ProcessGrid::axes)
    if (axes.contains(axis)) d.along(axis).kind = Kind::partial;
  return d;
}

Distribution Distribution::sharded(Axis axis, int dim) {
  Distribution d;
  d.along(axis) = {Kind::sharded, dim};
  return d;
}

ProcessGrid::Axes Distribution::axes_of(Kind kind) const {
  Axes found{};
  for (const Axis axis : ProcessGrid::axes)
    if (along(axis).kind == kind) found.add(axis);
  return found;
}

std::string to_string(const Distribution& d) {
  std::string text;
  if (d.is_partial()) {
    text = "partial over " + ProcessGrid::to_string(d.partial_axes());
    if (d.group > 0) text += fmt::format(" in groups of {}", d.group);
  }
  for (const Distribution::Axis axis : ProcessGrid::axes)
    if (d.along(axis).kind == Distribution::Kind::sharded)
      text += fmt::format("{}sharded along dim {} over {}", text.empty() ? "" : ", ", d.along(axis).dim,
                          ProcessGrid::name(axis));
  return text.empty() ? "replicated" : text;
}

}  // namespace keelson
