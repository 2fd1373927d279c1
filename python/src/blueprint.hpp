#pragma once

#include <optional>
#include <string>

#include "engine/train/growth.hpp"
#include "objects.hpp"

namespace keelson::python {

/// How a network grows, as Python says it.
struct Blueprint {
  GrowthOptions options;
  std::string where;  ///< at the beginning of errors
  std::string path;   ///< of the file, or a word for a dict, which programs can take as --grow
  std::string text;   ///< TOML, for checkpoints
};

/// `grow`: the path of a blueprint file, or a dict with the keys of one; None: no value. Called with the GIL. Throws
/// InputError for anything else, and for keys and values that a blueprint does not have.
std::optional<Blueprint> blueprint_of(nb::handle grow);

}  // namespace keelson::python
