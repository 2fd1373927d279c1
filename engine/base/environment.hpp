#pragma once

#include <string>

namespace keelson {

/// The value of an environment variable; empty if it is not set.
std::string environment(const char* name);

/// A number of seconds from an environment variable; `otherwise` if the variable is not set or empty. Throws InputError
/// if the value is not a number from 0 to 10^9.
double seconds_from_environment(const char* name, double otherwise);

}  // namespace keelson
