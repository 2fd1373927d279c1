#pragma once

#include <string>

#include "engine/train/run_times.hpp"

namespace keelson::app {

/// Where the time of a run went, as lines for a terminal: for each part its share, and seconds of the mean rank, of the
/// rank with least and of that with most. The last line is advice().
std::string time_table(const RunTimes& times);

/// One sentence on what costs most besides compute, and what would help.
std::string advice(const RunTimes& times);

}  // namespace keelson::app
