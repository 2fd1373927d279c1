#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/bench/networks.hpp"
#include "apps/bench/verbs.hpp"
#include "apps/common/options.hpp"
#include "backends/registry.hpp"
#include "engine/base/philox.hpp"
#include "engine/graph/plan.hpp"

namespace keelson::bench {
namespace {

struct StepOptions {
  std::string net = "mlperf";
  std::int64_t size = 128, batch = 1;
  int steps = 10, warmup = 2;
  bool plan = false, json = false;
};

struct Timing {
  double median = 0, fastest = 0, slowest = 0;  ///< seconds a step, of the slowest rank in each step
};

/// Numbers like the logarithms of counts: zeros alone would spare the caches.
void fill_inputs(Context& context, const Graph& graph, const Plan& plan) {
  for (const auto& node : graph.nodes()) {
    if (!node.srcs.empty()) continue;
    const Tensor t = plan.input(node.name);
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = philox::uniform({1, 0, 0}, i);
    context.write_plain(t, values.data());
  }
}

double one_step(Plan& plan, Communicator& world, Device& device, ops::StepState& state) {
  using clock = std::chrono::steady_clock;
  world.barrier();
  const auto start = clock::now();
  plan.forward(state);
  plan.backward();
  plan.update();
  device.fence();
  double seconds = std::chrono::duration<double>(clock::now() - start).count();
  ++state.step;
  world.allreduce(&seconds, 1, Reduction::max);
  return seconds;
}

Timing measure(const StepOptions& o, Plan& plan, Communicator& world, Device& device) {
  ops::StepState state;
  state.learning_rate = 1e-3f;
  state.sample_offset = world.rank() * o.batch;
  state.loss_scale = 1.0f / static_cast<float>(o.batch * world.size());
  for (int i = 0; i < o.warmup; ++i) one_step(plan, world, device, state);
  plan.set_profiling(o.plan);
  std::vector<double> seconds;
  for (int i = 0; i < o.steps; ++i) seconds.push_back(one_step(plan, world, device, state));
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

void print_result(const StepOptions& o, const Plan& plan, const Timing& t, const app::Session& session,
                  const std::string& device) {
  const auto rows = plan.rows();
  double gflop = 0;
  for (const auto& r : rows) gflop += r.gflop;
  const double samples = static_cast<double>(o.batch * session.world.size());
  if (o.json) {
    const nlohmann::json j{{"net", o.net},
                           {"size", o.size},
                           {"batch", o.batch},
                           {"ranks", session.world.size()},
                           {"machine", session.machine},
                           {"device", device},
                           {"seconds_per_step", t.median},
                           {"seconds_fastest", t.fastest},
                           {"seconds_slowest", t.slowest},
                           {"samples_per_second", samples / t.median},
                           {"gflop_per_second", gflop * session.world.size() / t.median},
                           {"arena_bytes", plan.arena_bytes()},
                           {"arena_lower_bound", plan.arena_lower_bound()}};
    fmt::print("{}\n", j.dump());
  } else {
    if (o.plan) plan.print(std::cout);
    std::cout.flush();
    fmt::print("{} {}^3, batch {} a rank, {}; {}\n", o.net, o.size, o.batch, session.machine, device);
    fmt::print("median {:.1f} ms a step ({:.1f} to {:.1f} over {} steps), {:.3f} samples/s, {:.1f} GFLOP/s\n",
               t.median * 1e3, t.fastest * 1e3, t.slowest * 1e3, o.steps, samples / t.median,
               gflop * session.world.size() / t.median);
  }
  std::fflush(stdout);
}

ExitCode run_step(const StepOptions& o, app::Session& session) {
  const Graph graph = make_network(o.net, o.size);
  const auto context = backends::make_context();
  Parameters parameters(graph, *context, 1);
  Optimizer optimizer;
  optimizer.momentum = 0.9f;
  Plan plan(graph, parameters, {.batch = o.batch, .optimizer = &optimizer, .communicator = &session.world});
  fill_inputs(*context, graph, plan);
  const Timing timing = measure(o, plan, session.world, context->device());
  if (session.world.rank() == 0 && o.plan && !o.json) fmt::print("{}\n", graph.summary());
  if (session.world.rank() == 0) print_result(o, plan, timing, session, context->describe());
  return ExitCode::done;
}

}  // namespace

void define_step(app::CommandLine& line) {
  auto o = std::make_shared<StepOptions>();
  auto& v = line.verb("step", "Time whole training steps of a network on made-up data; also under mpirun",
                      [o](app::Session& session) { return run_step(*o, session); });
  app::option(v, "--net", o->net, "Network")->check(CLI::IsMember(network_names()));
  app::option(v, "--size", o->size, "Edge of the cubic samples", "CELLS")->check(CLI::PositiveNumber);
  app::option(v, "--batch", o->batch, "Samples per rank and step", "SAMPLES")->check(CLI::PositiveNumber);
  app::option(v, "--steps", o->steps, "Timed steps, of which the median counts", "N")->check(CLI::PositiveNumber);
  app::option(v, "--warmup", o->warmup, "Steps before those", "N")->check(CLI::NonNegativeNumber);
  app::flag(v, "--plan", o->plan, "Print every call of the step with its backend, kernel, layout, work and time");
  app::flag(v, "--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
