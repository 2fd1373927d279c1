#include <fmt/format.h>

#include <iostream>

#include "apps/common/options.hpp"
#include "apps/cosmoflow/verbs.hpp"
#include "backends/registry.hpp"
#include "engine/graph/plan.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"

namespace keelson::cosmoflow {
namespace {

struct PlanVerbOptions {
  std::string net = "mlperf";
  std::int64_t size = 128, batch = 1;
  int steps = 0;
};

/// Zeros run as fast as data, but for denormal numbers, which the initial weights do not make.
void profile(Plan& plan, int steps) {
  plan.set_profiling(true);
  ops::StepState state;
  state.loss_scale = 1.0f / static_cast<float>(plan.batch());
  for (int i = 0; i < steps; ++i, ++state.step) {
    plan.forward(state);
    plan.backward();
    plan.update();
  }
}

ExitCode show_plan(const PlanVerbOptions& o, app::Session& session) {
  const bool paper = o.net == "paper";
  nets::CosmoFlowOptions n;
  n.size = o.size;
  if (paper) n.channels = 1, n.targets = 3;
  const auto graph = paper ? nets::cosmoflow_paper(n) : nets::cosmoflow_mlperf(n);
  const auto context = backends::make_context();
  Parameters parameters(graph, *context, 1);
  Optimizer optimizer;
  optimizer.momentum = 0.9f;
  PlanOptions p;
  p.batch = o.batch;
  p.optimizer = &optimizer;
  p.communicator = &session.world;
  Plan plan(graph, parameters, p);
  if (o.steps > 0) profile(plan, o.steps);
  if (session.world.rank() != 0) return ExitCode::done;
  fmt::print("{}\n", graph.summary());
  std::fflush(stdout);
  plan.print(std::cout);
  std::cout.flush();
  return ExitCode::done;
}

}  // namespace

void define_plan(app::CommandLine& line) {
  auto o = std::make_shared<PlanVerbOptions>();
  auto& v = line.verb(
      "plan",
      "Print a network and what a training step of it does here: backends, kernels, layouts, work, memory, time",
      [o](app::Session& session) { return show_plan(*o, session); });
  app::option(v, "--net", o->net, "Network: of MLPerf HPC or of the SC18 paper")
      ->check(CLI::IsMember({"mlperf", "paper"}));
  app::option(v, "--size", o->size, "Edge of the cubic samples", "CELLS")->check(CLI::PositiveNumber);
  app::option(v, "--batch", o->batch, "Samples per rank and step", "SAMPLES")->check(CLI::PositiveNumber);
  app::option(v, "--steps", o->steps, "Run so many steps on empty samples and show the time of each call; 0: only plan",
              "N")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace keelson::cosmoflow
