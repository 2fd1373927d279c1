#pragma once

#include "apps/climate/run_options.hpp"
#include "apps/common/mlperf_log.hpp"

namespace keelson::climate {

/// The facts about a run for a log of MLPerf HPC's DeepCAM.
app::MlperfBenchmark mlperf_benchmark(const RunOptions& o, std::int64_t global_batch, std::int64_t steps_per_epoch);

}  // namespace keelson::climate
