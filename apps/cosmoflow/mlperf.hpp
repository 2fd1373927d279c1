#pragma once

#include "apps/common/mlperf_log.hpp"
#include "apps/cosmoflow/run_options.hpp"

namespace keelson::cosmoflow {

/// What a log for MLPerf HPC says of a run with these options and this many samples per step.
app::MlperfBenchmark mlperf_benchmark(const RunOptions& o, std::int64_t global_batch);

}  // namespace keelson::cosmoflow
