#pragma once

#include <span>
#include <string>

#include "engine/train/checkpoint/run_state.hpp"

/// Checksums find damage. A file that was forged, or written by a faulty program, has the right checksums. These checks
/// find values that no run can have.
namespace keelson::detail {

/// Throws InputError, naming the file, the field, its value and the range, for a field that no run can have.
void require_valid(const RunState& state, const std::string& file);

/// Throws InputError for a name of an observed value that is also a field's.
void require_own_name(const std::string& observed, const std::string& file);

/// Throws InputError for an array of parameters, moments or recurrent states: its values must be finite and far enough
/// below the largest float to be computed with; with `non_negative` (variances, means of squares) 0 or more.
void require_valid(std::span<const float> values, const std::string& array, bool non_negative, const std::string& file);

}  // namespace keelson::detail
