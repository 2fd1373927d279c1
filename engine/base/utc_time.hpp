#pragma once

#include <string>

namespace keelson {

/// The time now, e.g. "2026-03-01T12:34:56Z" (ISO 8601, UTC).
std::string utc_now();

}  // namespace keelson
