#pragma once

#include "apps/common/mlperf_log.hpp"
#include "apps/cosmoflow/run_options.hpp"

namespace keelson::cosmoflow {

/// The facts about a run for a log of MLPerf HPC. `global_batch`: samples per step.
app::MlperfBenchmark mlperf_benchmark(const RunOptions& o, std::int64_t global_batch);

}  // namespace keelson::cosmoflow
