#pragma once

namespace keelson {

/// Whether the library may print how it decides things, to stderr: KEELSON_VERBOSE is set, and not to 0.
bool verbose();

}  // namespace keelson
