#include "engine/execute/choose_precision.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/execute/executor.hpp"

namespace keelson {

namespace {

/// Seconds of the fastest of a few steps.
double time_steps(Executor& executor, Device& device, Communicator* communicator, bool training) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 4; ++i) {  // the first warms up
    if (communicator) communicator->barrier();
    const auto start = Clock::now();
    executor.forward({});
    if (training) {
      executor.backward();
      executor.finish_exchange();
    }
    device.fence();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) fastest = std::min(fastest, seconds);
  }
  if (communicator) communicator->allreduce(&fastest, 1, Reduction::max);
  return fastest;
}

Precision of_type(DType t) {
  return t == DType::bf16 ? Precision::bf16 : t == DType::f16 ? Precision::fp16 : Precision::fp32;
}

/// fp32 or `low`.
Precision faster(Precision low, const Graph& graph, Context& context, const PlanOptions& options) {
  double seconds[2];
  std::uint64_t hash[2];
  const Precision both[2] = {Precision::fp32, low};
  for (int i = 0; i < 2; ++i) {
    PlanOptions o = options;
    o.precision = both[i];
    o.optimizer = nullptr;  // the same for both
    Parameters parameters(graph, context, 1);
    Executor executor(graph, parameters, o);
    hash[i] = executor.plan().hash();
    if (i == 1) {  // without such kernels on any rank there is nothing to time
      std::int64_t differ = hash[1] != hash[0];
      if (auto* ranks = o.communicator()) ranks->allreduce(&differ, 1, Reduction::max);
      if (!differ) return Precision::fp32;
    }
    seconds[i] = time_steps(executor, context.device(), o.communicator(), o.training);
  }
  return seconds[1] < seconds[0] ? low : Precision::fp32;
}

}  // namespace

Precision choose_precision(const std::string& word, const Graph& graph, Context& context, const PlanOptions& options) {
  const DType low = context.device().preferred_half();
  if (word == "default") return of_type(low);
  if (word == "auto") return faster(low == DType::f32 ? Precision::bf16 : of_type(low), graph, context, options);
  for (const auto p : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16})
    if (word == to_string(p)) return p;
  refuse("unknown precision {}: expected one of {}", word, fmt::join(precisions(), ", "));
}

}  // namespace keelson
