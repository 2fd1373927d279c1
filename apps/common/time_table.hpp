#pragma once

#include <string>

#include "engine/data/loader.hpp"
#include "engine/train/run_times.hpp"

namespace keelson::app {

/// Where the time of a run went, as lines for a terminal: for each part its share, the mean seconds over ranks, the
/// least and the most. The last line is advice().
std::string time_table(const RunTimes& times);

/// One sentence that says which part costs most besides compute, and what to change.
std::string advice(const RunTimes& times);

/// Where samples came from, in a line: "800 samples were read: 75.0 % from memory, ...".
std::string describe(const SampleCounts& counts);

}  // namespace keelson::app
