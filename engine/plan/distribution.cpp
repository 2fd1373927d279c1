#include "engine/plan/distribution.hpp"

#include <fmt/format.h>

namespace keelson {

std::string to_string(const Distribution& d) {
  if (!d.is_partial()) return "replicated";
  std::string text = "partial over " + ProcessGrid::to_string(d.partial_axes);
  if (d.group > 0) text += fmt::format(" in groups of {}", d.group);
  return text;
}

}  // namespace keelson
