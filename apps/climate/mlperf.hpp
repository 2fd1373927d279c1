#pragma once

#include "apps/climate/run_options.hpp"
#include "apps/common/mlperf_log.hpp"

namespace keelson::climate {

/// What a log for MLPerf HPC's DeepCAM says of a run with these options.
app::MlperfBenchmark mlperf_benchmark(const RunOptions& o, std::int64_t global_batch, std::int64_t steps_per_epoch);

}  // namespace keelson::climate
