#pragma once

#include <string>
#include <utility>
#include <vector>

namespace keelson::app {

/// What this process runs on, for reports: name -> text, in a sensible order. What the system does not tell is left
/// out.
std::vector<std::pair<std::string, std::string>> describe_machine();

/// Largest resident size of this process so far, bytes.
double peak_resident_bytes();

}  // namespace keelson::app
