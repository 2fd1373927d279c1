#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/lm/scaling.hpp"
#include "apps/lm/subcommands.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/philox.hpp"
#include "engine/execute/choose_precision.hpp"
#include "engine/execute/executor.hpp"
#include "engine/optim/sgd.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"

namespace keelson::lm {
namespace {

struct ScalingOptions {
  std::string net = "small", precision = "default", report;
  app::DeviceOptions device;
  std::int64_t batch = 0;
  int steps = 20, warmup = 3;
  bool strong = false, json = false;
};

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Streams per rank with `ranks` ranks; 0 if the streams cannot be divided evenly.
std::int64_t batch_of(const ScalingOptions& o, const nets::LstmLmConfiguration& net, int ranks) {
  const std::int64_t batch = o.batch > 0 ? o.batch : net.batch;
  if (!o.strong) return batch;
  return batch % ranks == 0 ? batch / ranks : 0;
}

/// Draws tokens so that the k-th most frequent one has a share of about 1 / k, like the words of a language (Zipf
/// 1949). The number of different rows of the embedding in a step depends on this.
void fill_tokens(Context& context, Executor& executor, const char* name, std::int64_t vocabulary, int rank) {
  const Tensor t = executor.input(name);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(t.elements()));
  const philox::Key key{1, philox::stream_of(name), static_cast<std::uint64_t>(rank)};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double k = std::pow(static_cast<double>(vocabulary), philox::uniform(key, i));  // log-uniform: density 1 / k
    ids[i] = static_cast<std::int32_t>(std::min(k, static_cast<double>(vocabulary)) - 1);
  }
  context.device().copy_from_host(t.raw(), ids.data(), t.bytes());
}

/// Times training steps on the ranks of `group`.
ScalingRow measure(const ScalingOptions& o, const nets::LstmLmConfiguration& net, std::int64_t batch,
                   Precision precision, Context& context, Communicator& group) {
  const Graph graph = nets::lstm_lm(net.net);
  Sgd optimizer;
  optimizer.clip_norm = net.clip_norm;
  const ProcessGrid grid(group);
  PlanOptions options{.batch = batch, .optimizer = &optimizer, .grid = &grid};
  options.precision = precision;
  Parameters parameters(graph, context, 1);
  Executor executor(graph, parameters, options);
  fill_tokens(context, executor, "x", net.net.vocabulary, group.rank());
  fill_tokens(context, executor, "y", net.net.vocabulary, group.rank());
  ops::StepParams step_params;
  step_params.learning_rate = 0.1f;
  step_params.sample_offset = group.rank() * batch;
  step_params.inverse_samples = 1.0f / static_cast<float>(batch * group.size());
  double waiting = 0;
  const auto step = [&] {
    executor.forward(step_params);
    executor.backward();
    executor.update();
    waiting += executor.take_exchange_seconds();
    executor.carry_states();
    ++step_params.step;
  };
  for (int i = 0; i < o.warmup; ++i) step();
  context.device().fence();
  group.barrier();
  waiting = 0;
  const auto start = Clock::now();
  for (int i = 0; i < o.steps; ++i) step();
  context.device().fence();
  double times[] = {since(start), waiting};
  group.allreduce(times, 2, Reduction::max);
  const auto words = static_cast<double>(batch * group.size() * net.net.unroll * o.steps);
  return {group.size(), batch, words / times[0], times[0] / o.steps, times[1] / times[0]};
}

nlohmann::json json_of(const ScalingTable& t) {
  nlohmann::json j{{"net", t.net}, {"machine", t.machine}, {"device", t.device}, {"strong", t.strong}};
  j["rows"] = nlohmann::json::array();
  for (const auto& r : t.rows)
    j["rows"].push_back({{"ranks", r.ranks},
                         {"batch", r.batch},
                         {"words_per_second", r.words_per_second},
                         {"words_per_second_per_rank", r.words_per_second / r.ranks},
                         {"speed_up", t.speed_up(r)},
                         {"efficiency", t.efficiency(r)},
                         {"seconds_per_step", r.seconds_per_step},
                         {"exchange_share", r.exchange_share}});
  return j;
}

ExitCode run_scaling(const ScalingOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  const auto net = nets::lstm_lm_configuration(o.net);
  if (batch_of(o, net, world.size()) == 0)
    refuse(
        "a global batch of {} cannot be divided evenly among {} ranks: give --batch, or a number of ranks that divides "
        "it",
        o.batch > 0 ? o.batch : net.batch, world.size());
  const auto session = app::open_device(o.device, launch);
  const auto& context = session.context;
  const Graph graph = nets::lstm_lm(net.net);
  // Chosen once, so that all rows have the same precision.
  const ProcessGrid grid(*session.ranks);
  const Precision precision =
      choose_precision(o.precision, graph, *context, {.batch = batch_of(o, net, world.size()), .grid = &grid});
  ScalingTable table{fmt::format("language model {}, {} parameters, unrolled over {}, {}", o.net,
                                 graph.parameter_count(), net.net.unroll, to_string(precision)),
                     launch.machine, session.describe(), o.strong};
  if (world.rank() == 0 && !o.json) fmt::print("{}", table.header());
  for (int ranks = 1; ranks <= world.size();
       ranks = ranks < world.size() ? std::min(2 * ranks, world.size()) : ranks + 1) {
    const auto group = session.ranks->split(world.rank() < ranks ? 0 : -1, world.rank());
    const auto batch = batch_of(o, net, ranks);
    if (group && batch > 0) table.rows.push_back(measure(o, net, batch, precision, *context, *group));
    if (world.rank() == 0 && !o.json && batch > 0) fmt::print("{}", table.line(table.rows.back()));
    std::fflush(stdout);
    world.barrier();  // the other ranks wait here without using their cores
  }
  if (world.rank() != 0) return ExitCode::done;
  if (o.json) fmt::print("{}\n", json_of(table).dump());
  if (!o.report.empty()) {
    write_atomically(o.report, render_scaling(table), Target::output);
    if (!o.json) fmt::print("report: {}\n", o.report);
  }
  return ExitCode::done;
}

}  // namespace

void define_scaling(app::CommandLine& line) {
  auto o = std::make_shared<ScalingOptions>();
  auto& v =
      line.subcommand("scaling", "Measure words per second, speed-up and efficiency on 1, 2, 4 ... of the job's ranks",
                      [o](app::Launch& launch) { return run_scaling(*o, launch); });
  std::vector<std::string> names;
  for (const auto& c : nets::lstm_lm_configurations()) names.push_back(c.name);
  v.option("--net", o->net, "Published configuration").one_of(names);
  v.option("--batch", o->batch, "Streams per rank, or with --strong of all ranks together; 0: as in the configuration",
           "STREAMS")
      .non_negative();
  v.flag("--strong", o->strong, "Divide one global batch among the ranks, instead of one batch for each rank");
  v.option("--steps", o->steps, "Timed steps", "N").positive();
  v.option("--warmup", o->warmup, "Steps before the timed ones", "N").non_negative();
  app::declare(o->device, v);
  v.option("--precision", o->precision,
           "Precision of matrix products' operands; default: fp32 on CPUs, bf16 on GPUs (fp16 before Ampere)")
      .one_of(precisions());
  v.option_without_default("--report", o->report, "Draw the table: one HTML page", "FILE").output();
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::lm
