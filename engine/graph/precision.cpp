#include "engine/graph/precision.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace keelson {

namespace {

/// Seconds of the fastest of a few steps.
double time_steps(Plan& plan, Device& device, Communicator* communicator, bool training) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 4; ++i) {  // the first warms up
    if (communicator) communicator->barrier();
    const auto start = Clock::now();
    plan.forward({});
    if (training) {
      plan.backward();
      plan.finish_exchange();
    }
    device.fence();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) fastest = std::min(fastest, seconds);
  }
  if (communicator) communicator->allreduce(&fastest, 1, Reduction::max);
  return fastest;
}

}  // namespace

std::vector<std::string> precisions() { return {"fp32", "bf16", "auto"}; }

std::string precision_name(DType compute) { return compute == DType::f32 ? "fp32" : std::string(to_string(compute)); }

DType choose_precision(const std::string& precision, const Graph& graph, Context& context, const PlanOptions& options) {
  if (precision == "fp32") return DType::f32;
  if (precision == "bf16") return DType::bf16;
  if (precision != "auto") refuse("unknown precision {}: expected fp32, bf16 or auto", precision);
  double seconds[2];
  std::uint64_t hash[2];
  const DType types[2] = {DType::f32, DType::bf16};
  for (int i = 0; i < 2; ++i) {
    PlanOptions o = options;
    o.compute = types[i];
    o.optimizer = nullptr;  // the same for both
    Parameters parameters(graph, context, 1);
    Plan plan(graph, parameters, o);
    hash[i] = plan.hash();
    if (i == 1) {  // without bf16 kernels on any rank there is nothing to time
      std::int64_t differ = hash[1] != hash[0];
      if (o.communicator) o.communicator->allreduce(&differ, 1, Reduction::max);
      if (!differ) return DType::f32;
    }
    seconds[i] = time_steps(plan, context.device(), o.communicator, o.training);
  }
  return seconds[1] < seconds[0] ? DType::bf16 : DType::f32;
}

}  // namespace keelson
