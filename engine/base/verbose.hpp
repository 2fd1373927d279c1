#pragma once

namespace keelson {

/// Whether the library may print its decisions to stderr: KEELSON_VERBOSE is set, and not to 0.
bool verbose();

}  // namespace keelson
