#pragma once

#include <string>
#include <utility>
#include <vector>

namespace keelson::app {

/// The machine on which this process runs, for reports: pairs of name and text. Facts that the system does not tell are
/// left out.
std::vector<std::pair<std::string, std::string>> describe_machine();

/// Largest resident size of this process so far, bytes.
double peak_resident_bytes();

}  // namespace keelson::app
