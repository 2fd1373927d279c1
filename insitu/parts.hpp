#pragma once

#include <string>
#include <vector>

#include "insitu/field.hpp"

namespace keelson::insitu {

/// A rank's interior of a field, in cells of the whole field.
struct Part {
  Triple offset{}, extents{1, 1, 1};

  std::int64_t end(std::size_t d) const { return offset[d] + extents[d]; }  ///< one past the last cell
  std::int64_t cells() const { return extents[0] * extents[1] * extents[2]; }
};

/// Checks that the parts (one per rank) divide a field of the extents `global`. The result is empty if each cell
/// belongs to exactly one rank. Else it is a message that names ranks and cells: two ranks have the same cells, no rank
/// has a cell, or a part reaches out of the field.
std::string problem_of_parts(const std::vector<Part>& parts, const Triple& global, int ndims);

}  // namespace keelson::insitu
