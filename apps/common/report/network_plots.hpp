#pragma once

#include <string>

#include "apps/common/report/metrics_file.hpp"

namespace keelson::app {

/// The changes of the network of a run, as a part of its report: what each did, and plots of parameters, widths and
/// milliseconds of a step by epoch. Empty without changes.
std::string network_changes(const History& history);

}  // namespace keelson::app
