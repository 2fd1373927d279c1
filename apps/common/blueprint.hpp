#pragma once

#include <string>

#include "engine/train/growth.hpp"

namespace keelson::app {

/// The name of a run's blueprint in RunState::texts.
inline constexpr const char* blueprint_text = "blueprint";

/// What the TOML text of a blueprint (docs/growing.md) says. `path`: where it is from, for errors. Throws InputError
/// for a text that is no TOML, and for keys and values that a blueprint does not have.
GrowthOptions parse_blueprint(const std::string& text, const std::string& path);

}  // namespace keelson::app
