#pragma once

#include <vector>

#include "engine/graph/parameters.hpp"

/// Parts of arrays in plain order (Parameter::part).
namespace keelson {

/// The elements of a part, in plain order, of a whole array of this shape.
std::vector<float> rows_of(const std::vector<float>& whole, const Shape& shape, const Parameter::Part& part);
/// Writes the elements of a part into the whole array. Returns the end of what was read from `rows`.
const float* put_rows(const float* rows, const Shape& shape, const Parameter::Part& part, std::vector<float>& whole);

/// The parts of a parameter on all ranks, by rank. Throws Error, on all ranks, if they are not the whole array.
/// Collective.
std::vector<Parameter::Part> all_parts(const Parameter& p, Communicator& ranks);
/// Whether the rank has rows, and no rank before it has the same.
bool is_first_with(const std::vector<Parameter::Part>& parts, int rank);

}  // namespace keelson
