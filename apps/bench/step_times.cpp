#include "apps/bench/step_times.hpp"

#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/base/activity.hpp"
#include "engine/base/philox.hpp"

namespace keelson::bench {

namespace {

void fill_input(Context& context, const Network& net, const std::string& name, const Tensor& t) {
  if (t.dtype() == DType::s32) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(t.elements()));
    const philox::Key key{1, philox::stream_of(name), 0};
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<std::int32_t>(philox::uniform(key, i) * static_cast<float>(net.classes));
    context.device().copy_from_host(t.raw(), numbers.data(), t.bytes());
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(t.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = philox::uniform({1, 0, 0}, i);
  context.write_plain(t, values.data());
}

}  // namespace

void fill_inputs(Context& context, const Network& net, const Executor& executor) {
  for (const auto& node : net.graph.nodes())
    for (std::int64_t m = 0; node.srcs.empty() && m < executor.plan().in_flight(); ++m)
      fill_input(context, net, node.name, executor.input(node.name, m));
}

ops::StepParams first_step(const Executor& executor) {
  const ProcessGrid* grid = executor.plan().options().grid;
  const auto axis = ProcessGrid::Axis::data;
  ops::StepParams step;
  step.learning_rate = 1e-3f;
  step.sample_offset = (grid ? grid->coordinate(axis) : 0) * executor.batch();
  step.inverse_samples = 1.0f / static_cast<float>(executor.batch() * (grid ? grid->extent(axis) : 1));
  return step;
}

double time_steps(int count, Executor& executor, Communicator& world, Device& device, ops::StepParams& step) {
  using clock = std::chrono::steady_clock;
  const bool training = executor.plan().options().training;
  const auto passes = executor.plan().passes();
  world.barrier();
  const auto start = clock::now();
  for (int i = 0; i < count; ++i, ++step.step) {
    const Activity activity(Activity::Kind::step, static_cast<std::int64_t>(step.step) + 1, 1);
    for (const Pass& pass : passes) {
      if (pass.backward)
        executor.backward(pass.micro_batch);
      else
        executor.forward(step, pass.micro_batch);
    }
    if (training) executor.update();
    executor.carry_states();
  }
  device.fence();
  double seconds = std::chrono::duration<double>(clock::now() - start).count() / count;
  world.allreduce(&seconds, 1, Reduction::max);
  return seconds;
}

double gflop_of_step(const Executor& executor) {
  double gflop = 0;
  for (const auto& r : executor.rows())
    gflop += r.gflop / static_cast<double>(r.period) *
             (r.phase == "forward" || r.phase == "backward" ? static_cast<double>(executor.micro_batches()) : 1);
  return gflop;
}

nlohmann::json row_json(const PlanRow& row, const DevicePeaks& peaks) {
  return {{"phase", row.phase},
          {"node", row.node},
          {"op", row.op},
          {"backend", row.backend},
          {"kernel", row.kernel},
          {"layout", row.layout},
          {"gflop", row.gflop},
          {"least_gflop", row.least_gflop},
          {"relative_error", row.relative_error},
          {"megabytes", row.megabytes},
          {"milliseconds", row.milliseconds},
          {"period", row.period},
          {"gradient_bytes", row.gradient_bytes},
          {"gflop_per_second", row.gflop_per_second()},
          {"gigabytes_per_second", row.gigabytes_per_second()},
          {"share_of_peak", row.share(peaks)}};
}

}  // namespace keelson::bench
