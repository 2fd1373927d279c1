#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/bench/networks.hpp"
#include "apps/bench/peaks.hpp"
#include "apps/bench/roofline.hpp"
#include "apps/bench/step_times.hpp"
#include "apps/bench/subcommands.hpp"
#include "apps/bench/timing.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/exchange_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/common/trace_option.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/execute/choose_precision.hpp"
#include "engine/onnx/export.hpp"
#include "engine/optim/optimizers.hpp"
#include "engine/plan/spatial_parts.hpp"
#include "engine/train/choose_grid.hpp"
#include "engine/train/choose_stages.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::bench {
namespace {

struct StepOptions {
  app::Subcommand* subcommand = nullptr;
  std::string net = "mlperf", size, backend, roofline, onnx, precision = "default", optimizer, optimizer_options;
  app::DeviceOptions device;
  app::RequestedExchange exchange;
  std::int64_t batch = 0;
  int steps = 10, warmup = 2, as_rank = 0;
  app::TraceOption trace;
  bool plan = false, json = false, remeasure = false, recompute = false, inference = false;
  bool profile() const { return plan || !roofline.empty(); }
  std::string what() const { return inference ? "forward pass" : "step"; }  ///< what is timed
};

/// Throws InputError for options that only training has.
void check_inference(const StepOptions& o) {
  if (!o.inference) return;
  for (const char* name : {"recompute", "reproducible", "bucket-mb", "wire", "progress", "shard-optimizer", "parallel",
                           "optimizer", "optimizer-options", "spatial", "channel-parallel", "stages", "micro-batches"})
    if (o.subcommand->given(name))
      refuse("--inference times forward passes alone: there is no backward pass and no exchange, so leave --{} out",
             name);
}

/// The same steps without an option, which are timed in turn with the steps that have it.
struct Without {
  std::string option;                    ///< "reproducible"
  Executor& executor;                    ///< may be the executor that is measured
  std::function<void(bool)> set_option;  ///< called before steps with the option (true) and without it; may be empty
};

/// The results.
struct StepTimes {
  Timing step;                    ///< seconds, of the slowest rank in each step
  std::optional<Timing> without;  ///< the same for steps without the option
  double least_waiting = 0,
         most_waiting = 0;  ///< seconds of a step that a rank waits for others; least and most over ranks
  PeaksInRun peaks;         ///< between the steps; none if calls are not timed
};

/// Whether the machine is measured before step i of `steps`: at most 8 times, in equal distances.
bool measures_before(int i, int steps) { return i % ((steps + 7) / 8) == 0; }

StepTimes measure(const StepOptions& o, Executor& executor, const std::optional<Without>& without, Communicator& world,
                  Context& context) {
  Device& device = context.device();
  auto step_params = first_step(executor);
  const auto time = [&](bool with, int count) {
    if (without && without->set_option) without->set_option(with);
    return time_steps(count, with ? executor : without->executor, world, device, step_params);
  };
  // After each wait for a device, the host needs time to start the next step, so several steps are timed together. The
  // first steps on such a device are captured and measured (OverlapTrial).
  const int together = !device.is_asynchronous() || o.profile() ? 1 : 10;
  for (int i = 0; i < o.warmup; ++i) {
    time(true, together);
    if (without) time(false, together);
  }
  executor.set_profiling(o.profile());
  std::vector<double> seconds, seconds_without;
  executor.take_exchange_seconds();
  double waited = 0;
  PeaksInRun peaks;
  for (int i = 0; i < o.steps; ++i) {
    if (o.profile() && measures_before(i, o.steps)) {
      peaks.measure(context, world);
      time(true, together);  // the measurement left none of the step's data in the caches
      executor.take_exchange_seconds();
    }
    seconds.push_back(time(true, together));
    waited += executor.take_exchange_seconds();
    if (without) seconds_without.push_back(time(false, together));
    executor.take_exchange_seconds();
  }
  if (o.profile()) peaks.measure(context, world);
  double least = waited / (o.steps * together), most = least;
  world.allreduce(&least, 1, Reduction::min);
  world.allreduce(&most, 1, Reduction::max);
  const auto other = without ? std::optional(summarize(std::move(seconds_without))) : std::nullopt;
  return {summarize(std::move(seconds)), other, least, most, std::move(peaks)};
}

/// The results of one run of the subcommand, on rank 0.
struct StepResult {
  const StepOptions& options;
  const app::Launch& launch;
  const Network& net;
  const Executor& executor;
  Precision precision;
  std::string device;
  Timing seconds;  ///< as StepTimes::step
  StepTimes times;
  ExchangeOptions exchange;
  MachinePeaks peaks;
  const ProcessGrid& grid;
  double gflop;         ///< of a step, of all ranks
  std::string without;  ///< Without::option

  std::int64_t batch() const { return executor.batch(); }
  /// Samples per second of all replicas together.
  double samples_per_second() const {
    return static_cast<double>(batch() * grid.extent(ProcessGrid::Axis::data)) / seconds.median;
  }
  double units_per_second() const { return samples_per_second() * static_cast<double>(net.units_per_sample); }
  double gflop_per_second() const { return gflop / seconds.median; }
  /// The time of a step, divided by the time of a step without the option. Only if the latter was timed.
  double cost() const { return seconds.median / times.without->median; }
  /// The calls' least time at these peaks, divided by the time that the calls took.
  double share_of(const DevicePeaks& reached) const {
    double milliseconds = 0;
    for (const auto& row : executor.rows()) milliseconds += row.milliseconds_per_step();
    return least_milliseconds(executor.rows(), reached) / milliseconds;
  }
  std::string title() const {
    const bool alone = grid.extent(ProcessGrid::Axis::data) == grid.extent(Distribution::all_terms);
    return fmt::format("{}, batch {} a {}, {}{}", net.title, batch(), alone ? "rank" : "replica of " + grid.describe(),
                       to_string(precision), options.inference ? ", inference" : "");
  }
};

nlohmann::json json_of(const StepResult& r) {
  const auto& o = r.options;
  nlohmann::json j{{"net", o.net},
                   {"batch", r.batch()},
                   {"precision", to_string(r.precision)},
                   {"inference", o.inference},
                   {"ranks", r.launch.world.size()},
                   {"grid", r.grid.describe()},
                   {"machine", r.launch.machine},
                   {"device", r.device},
                   {"seconds_per_step", r.seconds.median},
                   {"seconds_fastest", r.seconds.fastest},
                   {"seconds_slowest", r.seconds.slowest},
                   {"seconds_mean", r.seconds.mean},
                   {"samples_per_second", r.samples_per_second()},
                   {"gflop_per_second", r.gflop_per_second()},
                   {"arena_bytes", r.executor.plan().arena_bytes()},
                   {"arena_lower_bound", r.executor.plan().arena_lower_bound()}};
  if (!o.inference) {
    j["bucket_bytes"] = r.exchange.bucket_bytes;
    j["waiting_least_seconds"] = r.times.least_waiting;
    j["waiting_most_seconds"] = r.times.most_waiting;
  }
  if (r.times.without) {
    j["seconds_per_step_without"] = r.times.without->median;
    j["cost"] = r.cost();
  }
  if (r.net.size.size() == 1) j["size"] = r.net.size[0];
  if (r.net.size.size() > 1) j["size"] = r.net.size;
  if (r.net.unit != "sample") j[r.net.unit + "s_per_second"] = r.units_per_second();
  if (!o.profile()) return j;
  const DevicePeaks between = r.times.peaks.mean();
  j["peaks"] = peaks_json(r.peaks);
  j["between_steps"] = {{"flops_per_second", between.flops_per_second},
                        {"copy_bytes_per_second", between.copy_bytes_per_second},
                        {"share_of_peak", r.share_of(between)}};
  j["rows"] = nlohmann::json::array();
  for (const auto& row : r.executor.rows()) j["rows"].push_back(row_json(row, r.peaks));
  return j;
}

void print_text(const StepResult& r) {
  const auto& o = r.options;
  if (o.plan) {
    fmt::print("{}\nmachine's peaks: {}\n", r.net.graph.summary(), describe(r.peaks));
    fmt::print("of peak: the larger of GFLOP/s and GB/s (= MB/ms) over these; above 100 % where caches fed a call\n\n");
    std::fflush(stdout);
    r.executor.print(std::cout, &r.peaks);
    std::cout.flush();
    fmt::print("between the steps the machine reached {}: {:.1f} % at the means\n", describe(r.times.peaks),
               100 * r.share_of(r.times.peaks.mean()));
  }
  fmt::print("{}, {}; {}\n", r.title(), r.launch.machine, r.device);
  fmt::print("median {:.1f} ms a {} ({:.1f} to {:.1f} over {} {}, mean {:.1f}), {:.{}f} {}s/s, {:.1f} GFLOP/s\n",
             r.seconds.median * 1e3, o.what(), r.seconds.fastest * 1e3, r.seconds.slowest * 1e3, o.steps,
             o.inference ? "forward passes" : "steps", r.seconds.mean * 1e3, r.units_per_second(),
             r.net.units_per_sample > 1 ? 0 : 3, r.net.unit, r.gflop_per_second());
  if (r.times.without)
    fmt::print("{}: {:.2f} times a step without ({:.1f} ms, timed in turn)\n", r.without, r.cost(),
               r.times.without->median * 1e3);
  if (r.launch.world.size() == 1 || o.inference) return;
  constexpr double mebi = 1024 * 1024;
  fmt::print(
      "buckets of {:.3g} MiB; waiting for other ranks: {:.1f} % of the step on the rank that waits least, {:.1f} % on "
      "the rank that waits most\n",
      static_cast<double>(r.exchange.bucket_bytes) / mebi, 100 * r.times.least_waiting / r.seconds.median,
      100 * r.times.most_waiting / r.seconds.median);
}

void report(const StepResult& r) {
  const auto& o = r.options;
  if (!o.roofline.empty())
    write_atomically(o.roofline,
                     render_roofline({r.title(), fmt::format("{}; {}", r.launch.machine, r.device), r.peaks,
                                      r.executor.rows(), r.seconds.median, r.samples_per_second(), o.what()}),
                     Target::output);
  if (o.json)
    fmt::print("{}\n", json_of(r).dump());
  else
    print_text(r);
  if (!o.roofline.empty() && !o.json) fmt::print("roofline: {}\n", o.roofline);
  std::fflush(stdout);
}

/// Prints the plan of one rank of a replica, without the other ranks.
ExitCode show_plan(const StepOptions& o, app::Launch& launch, const Network& net, Context& context) {
  if (launch.world.size() > 1) refuse("--as-rank shows the plan of one rank without the others: start one rank");
  for (const char* name : {"json", "trace", "roofline", "onnx", "reproducible", "bucket-mb", "wire", "progress"})
    if (o.subcommand->given(name)) refuse("--as-rank shows a plan and runs nothing: leave --{} out", name);
  const auto replica = o.exchange.grid.replica.extents();
  const int ranks = ranks_of(replica);
  if (o.subcommand->given("parallel"))
    refuse(
        "--as-rank shows a rank of one replica: give --spatial, --channel-parallel or --stages in place of --parallel");
  if (o.as_rank >= ranks)
    refuse("--as-rank {} of {}: expected a rank from 0 to {}", o.as_rank, ranks == 1 ? "1 rank" : options_of(replica),
           ranks - 1);
  const ProcessGrid grid(training_extents(ranks, replica), o.as_rank);
  app::require_parts(net.graph, grid);
  PlanOptions options{.batch = o.batch > 0 ? o.batch : net.batch, .training = !o.inference, .grid = &grid};
  options.micro_batch_count = app::decide_micro_batches(o.exchange, options.batch, replica.stage);
  if (options.training) options.optimizer = net.optimizer.get();
  options.exchange.shards = parse_shards(o.exchange.shards);
  options.recompute = o.recompute;
  options.precision = choose_precision(o.precision, net.graph, context, options);
  Parameters parameters(net.graph, context, 1);
  const Plan plan(net.graph, parameters, options);
  plan.print(std::cout);
  std::cout.flush();
  fmt::print("rank {} of {}\nmemory: {}\nexchanges in a step: {}\n", o.as_rank, grid.describe(),
             app::describe_memory(plan), app::describe_exchanges(plan));
  fmt::print("{}", app::describe_channel_layers(net.graph, options));
  for (const auto& [input, rows] : input_rows(net.graph, options))
    fmt::print("input {}: rows {} to {}\n", input, rows.begin, rows.end - 1);
  return ExitCode::done;
}

/// The process grid of --parallel, --spatial, --channel-parallel and --stages. auto measures all grids for as many
/// samples as the ranks would have on their own, and changes the batch to that of a replica. Collective.
ProcessGrid::Extents decide_grid(const StepOptions& o, const Network& net, Context& context, Communicator& world,
                                 PlanOptions& options) {
  if (const auto asked_for = app::requested_grid(o.exchange.grid, world.size())) return *asked_for;
  const std::int64_t global_batch = options.batch * world.size();
  options.micro_batch_count = app::decide_micro_batches(o.exchange, options.batch, 1);
  options.precision = choose_precision(o.precision, net.graph, context, options);
  const GridChoice choice = choose_grid(net.graph, context, world, global_batch, options, {.measure_all = true});
  options.batch = choice.grid().batch;
  options.micro_batch_count = choice.grid().micro_batches;
  if (world.rank() == 0 && !o.json) fmt::print("{}", app::table_of(choice, world.size(), global_batch));
  return choice.grid().extents;
}

/// Null: the optimizer of the network's recipe.
std::shared_ptr<const Optimizer> optimizer_of(const StepOptions& o) {
  if (o.optimizer.empty() && !o.optimizer_options.empty())
    refuse("--optimizer-options changes the settings of an optimizer: name the optimizer with --optimizer, too");
  if (o.optimizer.empty()) return nullptr;
  const auto optimizer = make_optimizer(o.optimizer);
  read_settings(*optimizer, o.optimizer_options);
  return optimizer;
}

ExitCode run_step(const StepOptions& o, app::Launch& launch) {
  check_inference(o);
  Network net = make_network(o.net, o.size, !o.onnx.empty());
  if (const auto optimizer = optimizer_of(o)) net.optimizer = optimizer;
  const auto session = app::open_device(o.device, launch, o.backend);
  const auto& context = session.context;
  if (o.subcommand->given("as-rank")) return show_plan(o, launch, net, *context);
  MachinePeaks peaks;
  if (o.profile()) peaks = machine_peaks(*context, launch, o.remeasure);
  PlanOptions options{.batch = o.batch > 0 ? o.batch : net.batch, .training = !o.inference};
  if (options.training) {
    options.optimizer = net.optimizer.get();
    app::check(o.exchange, o.precision);
    options.exchange = app::decide(o.exchange, *session.ranks);
    options.recompute = o.recompute;
  }
  const ProcessGrid grid(*session.ranks, decide_grid(o, net, *context, *session.ranks, options));
  const int stages = grid.extent(ProcessGrid::Axis::stage);
  if (!o.exchange.grid.is_auto())
    options.micro_batch_count = app::decide_micro_batches(o.exchange, options.batch, stages);
  options.grid = &grid;
  app::require_parts(net.graph, grid);
  const auto trace = app::begin_trace(o.trace, launch.world);
  options.precision = choose_precision(o.precision, net.graph, *context, options);
  options.stage_starts = choose_stage_starts(net.graph, *context, *session.ranks, stages, options);
  Parameters parameters(net.graph, *context, 1);
  if (!o.onnx.empty() && launch.world.rank() == 0) export_onnx(net.graph, parameters, o.onnx, {.name = net.title});
  Executor executor(net.graph, parameters, options);
  fill_inputs(*context, net, executor);
  std::optional<Executor> plain_executor;
  std::optional<Without> without;
  if (options.exchange.reproducible) {
    PlanOptions plain = options;
    plain.exchange.reproducible = false;
    fill_inputs(*context, net, plain_executor.emplace(net.graph, parameters, plain));
    without.emplace("reproducible", *plain_executor, nullptr);
  } else if (o.exchange.progress == "thread") {
    const ProgressChoice refuses(session.ranks.get(), ProgressBy::thread, launch.placement.cpus);
    without.emplace("progress by a thread", executor,
                    [&](bool with) { session.ranks->progress().use_thread(with, launch.placement.cpus); });
  }
  const StepTimes times = measure(o, executor, without, launch.world, *context);
  app::end_trace(o.trace, trace.get(), launch.world, o.json ? nullptr : stdout);
  if (o.profile() && launch.world.rank() == 0) raise(peaks, times.peaks, *context, launch);
  double gflop = gflop_of_step(executor);
  launch.world.allreduce(&gflop, 1, Reduction::sum);
  if (launch.world.rank() == 0)
    report({o, launch, net, executor, options.precision, session.describe(), times.step, times, options.exchange, peaks,
            grid, gflop, without ? without->option : ""});
  return ExitCode::done;
}

}  // namespace

void define_step(app::CommandLine& line) {
  auto o = std::make_shared<StepOptions>();
  auto& v = line.subcommand(
      "step", "Time whole training steps or forward passes of a network on made-up data; also under mpirun",
      [o](app::Launch& launch) { return run_step(*o, launch); });
  auto names = network_names();
  for (const auto& name : earlier_network_names()) names.push_back(name);
  v.option("--net", o->net, "Network").one_of(names);
  o->subcommand = &v;
  v.flag("--inference", o->inference,
         "Time forward passes as in evaluation: with the loss, without backward pass and update");
  v.option_without_default("--onnx", o->onnx,
                           "Also write the network with its initial parameters as an ONNX model, to time it elsewhere",
                           "FILE")
      .output();
  v.option_without_default("--size", o->size,
                           "Edge of CosmoFlow's cubic samples, or rows and columns of climate snapshots: 128, 384x576. "
                           "Default: as published",
                           "SIZE");
  v.option("--batch", o->batch, "Samples per rank and step; 0: 1, or 20 for the language models", "SAMPLES")
      .non_negative();
  v.option("--steps", o->steps, "Timed steps, or forward passes; their median and mean are printed", "N").positive();
  v.option("--warmup", o->warmup, "Steps before the timed ones", "N").non_negative();
  v.option_without_default("--optimizer", o->optimizer,
                           "How parameters move, with the optimizer's default settings. Default: as published", "NAME")
      .one_of(optimizer_names());
  v.option_without_default(
      "--optimizer-options", o->optimizer_options,
      "Settings of --optimizer, e.g. precondition_frequency=50; Python's keelson.optim has their names",
      "NAME=VALUE,...");
  v.option("--precision", o->precision,
           "Precision of convolutions' and dense layers' operands; default: fp32 on CPUs, bf16 on GPUs (fp16 before "
           "Ampere); auto: the precision that is faster here, measured at the start")
      .one_of(precisions());
  app::declare(o->device, v);
  app::declare(o->exchange, v);
  v.flag("--recompute", o->recompute,
         "Compute cheap values again in the backward pass, as in training with --recompute");
  option_backend(v, o->backend);
  v.option_without_default("--as-rank", o->as_rank,
                           "Of --spatial, --channel-parallel or --stages: print the plan and the memory of this rank, "
                           "without the other ranks and without running it",
                           "RANK")
      .non_negative();
  v.flag("--plan", o->plan,
         "Print every call of the step with its backend, kernel, layout, work, time, and share of the machine's "
         "peak: the larger of GFLOP/s over the peak of multiply-adds and GB/s over the bandwidth of a copy");
  v.option_without_default("--roofline", o->roofline,
                           "Draw the calls on the machine's measured roofline: one HTML page", "FILE")
      .output();
  app::declare(o->trace, v);
  option_remeasure(v, o->remeasure);
  v.flag("--json", o->json, "Print one JSON object; with the calls if --plan or --roofline is given");
}

}  // namespace keelson::bench
