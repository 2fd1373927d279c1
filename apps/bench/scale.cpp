#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/bench/scale/compare.hpp"
#include "apps/bench/scale/programs.hpp"
#include "apps/bench/scale/scale_page.hpp"
#include "apps/bench/subcommands.hpp"
#include "apps/bench/timing.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"

namespace keelson::bench {
namespace {

struct ScaleOptions {
  app::Subcommand* subcommand = nullptr;
  std::string machine = "cori", html, compare, parallel = "data", spatial = "1";
  std::vector<int> ranks;
  std::vector<std::string> profile, exchange;
  double step_ms = 0, samples = 1, strong = 0, imbalance = -1;
  std::uint64_t bucket_bytes = 8 << 20;
  int steps = 2, seed = 1, stages = 1, micro_batches = 0;
  bool json = false, show_machine = false;
};

StepProfile profile_on(const Machine& machine, const ScaleOptions& o) {
  StepProfile read = read_profile(o.profile.front());
  if (o.profile.size() > 1) read = read.with_smaller(read_profile(o.profile[1]));
  const StepProfile measured = read.with_samples(o.samples);
  if (o.step_ms <= 0 && measured.gflop <= 0)
    refuse("--profile {}: its calls have no FLOPs to scale by; give --step-ms", o.profile.front());
  const double seconds = o.step_ms > 0 ? o.step_ms * 1e-3 : measured.gflop * 1e9 / machine.flops_per_second;
  return measured.slower(seconds / measured.seconds());
}

ScaleGrid grid_of(const ScaleOptions& o) {
  ScaleGrid grid = parse_grid(o.parallel);
  if (o.subcommand->given("parallel")) {
    for (const char* name : {"spatial", "stages"})
      if (o.subcommand->given(name))
        refuse("--parallel and --{} both say how ranks share samples: give one of them", name);
  } else {
    grid.space = parse_parts(o.spatial);
    grid.stages = o.stages;
  }
  grid.micro_batches = o.micro_batches;
  return grid;
}

std::vector<int> ranks_of(const Machine& machine, const ScaleGrid& grid, const ScaleOptions& o) {
  if (!o.ranks.empty()) return o.ranks;
  if (grid.data > 0) return {grid.ranks()};
  std::vector<int> ranks;
  for (int nodes = 1; nodes * machine.ranks_per_node <= machine.most_ranks && nodes <= 1024; nodes *= 8)
    if (const int n = nodes * machine.ranks_per_node; n % grid.replica() == 0) ranks.push_back(n);
  if (ranks.empty()) ranks.push_back(std::lcm(grid.replica(), machine.ranks_per_node));
  return ranks;
}

std::vector<NamedExchange> chosen(const Machine& machine, const ScaleGrid& grid, const ScaleOptions& o) {
  auto all = exchanges(machine, o.bucket_bytes, grid);
  if (o.exchange.empty()) return all;
  std::vector<NamedExchange> some;
  std::vector<std::string> names;
  for (const auto& e : all) names.push_back(e.name);
  for (const auto& name : o.exchange) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      refuse("--exchange {}: not one of {} on the machine '{}'", name, fmt::join(names, ", "), machine.name);
    some.push_back(all[static_cast<std::size_t>(found - names.begin())]);
  }
  return some;
}

void print_row(const ScalePoint& p) {
  fmt::print(
      "{:<12} {:<24} {:>7} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.1f} {:>9.0f} {:>9.1f} % {:>9.1f}\n",
      p.exchange, p.grid, p.ranks, p.result.step * 1e3, p.alone * 1e3, p.computing * 1e3, p.imbalance() * 1e3,
      p.exposed() * 1e3, p.result.wire_bytes * 1e-6, p.result.messages, 100 * p.efficiency, p.result.wall_seconds);
  std::fflush(stdout);
}

std::string counted_batches(int n) { return n == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", n); }

/// "1.5", or "1.5 to 2".
std::string range_text(const std::vector<double>& values, const char* format) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const auto low = fmt::format(fmt::runtime(format), *least), high = fmt::format(fmt::runtime(format), *most);
  return low == high ? low : low + " to " + high;
}

/// What the ranks of a stage do in a step, beside the exchange of gradients.
std::string describe_stage(const std::vector<RankProgram>& programs, int stage, int parts) {
  std::vector<double> computing, sent, messages;
  for (int part = 0; part < parts; ++part) {
    const auto& program =
        programs[static_cast<std::size_t>(stage) * static_cast<std::size_t>(parts) + static_cast<std::size_t>(part)];
    computing.push_back(program.computing() * 1e3);
    sent.push_back(0);
    messages.push_back(0);
    for (const auto& e : program.events) {
      if (e.kind != RankEvent::Kind::send) continue;
      sent.back() += static_cast<double>(e.bytes) * 1e-6;
      messages.back() += 1;
    }
  }
  return fmt::format("computes {} ms, sends {} MB in {} messages within its replica", range_text(computing, "{:.2f}"),
                     range_text(sent, "{:.3f}"), range_text(messages, "{:.0f}"));
}

/// The first lines: how ranks share the work.
void print_grid(const ScaleStudy& study, int ranks) {
  const ScaleGrid grid = study.grid.for_ranks(ranks);
  const auto programs = grid_programs(study.profile, grid, study.machine, {});
  fmt::print("grid {}: {} of {}, {} a step\n", grid.describe(), counted(grid.data, "replica"),
             counted(grid.replica(), "rank"), counted_batches(micro_batches_of(study.profile, grid)));
  for (int stage = 0; stage < grid.stages && programs.size() > 1; ++stage)
    fmt::print("{}a rank {}\n", grid.stages > 1 ? fmt::format("stage {}: ", stage) : "",
               describe_stage(programs, stage, grid.parts()));
}

void print_head(const ScaleStudy& study, const std::string& what) {
  fmt::print("\n{}: {} on a machine {}; simulated, mean of {} steps\n", what, study.profile.title, study.machine.title,
             study.steps);
  fmt::print("{:<12} {:<24} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>11} {:>9}\n", "exchange", "grid",
             "ranks", "step ms", "alone ms", "computing", "imbalance", "exposed", "MB sent", "messages", "efficiency",
             "took s");
}

nlohmann::json json_of(const ScalePoint& p) {
  return {{"exchange", p.exchange},
          {"grid", p.grid},
          {"ranks", p.ranks},
          {"samples_per_replica", p.samples},
          {"seconds_per_step", p.result.step},
          {"seconds_alone", p.alone},
          {"seconds_computing", p.computing},
          {"seconds_imbalance", p.imbalance()},
          {"seconds_exposed", p.exposed()},
          {"bytes_sent", p.result.wire_bytes},
          {"messages_sent", p.result.messages},
          {"efficiency", p.efficiency},
          {"simulation", {{"seconds", p.result.wall_seconds}, {"megabytes", p.result.megabytes}}}};
}

nlohmann::json json_of(const std::vector<ScalePoint>& points) {
  auto all = nlohmann::json::array();
  for (const auto& p : points) all.push_back(json_of(p));
  return all;
}

void report(const ScaleOptions& o, const ScalePage& page) {
  if (!o.html.empty()) write_atomically(o.html, render_scale(page), Target::output);
  const auto published = published_on(page.study.machine);
  if (o.json) {
    nlohmann::json j{{"machine", json_of(page.study.machine)},
                     {"profile", page.study.profile.title},
                     {"weak", json_of(page.weak)},
                     {"strong", json_of(page.strong)}};
    if (published)
      j["published"] = {{"ranks", published->ranks}, {"efficiency", published->efficiency}, {"what", published->what}};
    fmt::print("{}\n", j.dump());
    return;
  }
  fmt::print("\n");
  for (const auto& e : page.exchanges) fmt::print("{:<12} {}\n", e.name, e.what);
  if (published)
    fmt::print("published    {:.1f} % at {} ranks: {}\n", 100 * published->efficiency, published->ranks,
               published->what);
  if (!o.html.empty()) fmt::print("page: {}\n", o.html);
}

/// Prints measured sums beside simulated ones.
ExitCode compare_allreduces(const ScaleOptions& o, const Machine& machine) {
  const auto rows = compare_with(o.compare, machine, replay_program());
  if (o.json) {
    auto all = nlohmann::json::array();
    for (const auto& r : rows)
      all.push_back(
          {{"bytes", r.bytes}, {"algorithm", r.algorithm}, {"measured", r.measured}, {"simulated", r.simulated}});
    fmt::print("{}\n", all.dump());
    return ExitCode::done;
  }
  fmt::print("sums as in {}, on a machine {}\n", o.compare, machine.title);
  fmt::print("{:>12} {:<16} {:>12} {:>12} {:>9}\n", "bytes", "algorithm", "measured us", "simulated us", "error");
  std::vector<double> errors;
  for (const auto& r : rows) {
    errors.push_back(std::abs(r.simulated / r.measured - 1));
    fmt::print("{:>12} {:<16} {:>12.1f} {:>12.1f} {:>+7.0f} %\n", r.bytes, r.algorithm, r.measured * 1e6,
               r.simulated * 1e6, 100 * (r.simulated / r.measured - 1));
  }
  fmt::print("median error {:.0f} %\n", 100 * summarize(errors).median);
  return ExitCode::done;
}

ExitCode run_scale(const ScaleOptions& o, app::Launch& launch) {
  Machine machine = make_machine(o.machine);
  if (o.imbalance >= 0) machine.imbalance = o.imbalance;
  if (o.show_machine) {
    if (launch.world.rank() == 0) fmt::print("{}\n", json_of(machine).dump(2));
    return ExitCode::done;
  }
  if (launch.world.size() > 1) refuse("scale simulates all ranks in one process: start it without mpirun or srun");
  if (!o.compare.empty()) return compare_allreduces(o, machine);
  if (o.profile.size() > 2)
    refuse("--profile: found {} files, expected one, or two for parts of samples", o.profile.size());
  if (o.profile.empty()) refuse("--profile is missing: keelson-bench step --plan --json > FILE makes one");
  const ScaleGrid grid = grid_of(o);
  const ScaleStudy study{profile_on(machine, o),        machine,         grid, o.steps,
                         static_cast<unsigned>(o.seed), replay_program()};
  ScalePage page{study, chosen(machine, grid, o), {}, {}};
  const auto ranks = ranks_of(machine, grid, o);
  for (const int n : ranks) grid.for_ranks(n);  // refuses before anything is simulated
  if (!o.json) print_grid(study, ranks.front());
  if (!o.json) print_head(study, "weak scaling");
  for (const auto& exchange : page.exchanges)
    for (const int n : ranks) {
      page.weak.push_back(study.weak(exchange, n));
      if (!o.json) print_row(page.weak.back());
    }
  if (o.strong > 0 && !o.json) print_head(study, fmt::format("strong scaling, global batch {}", o.strong));
  for (const int n : ranks) {
    if (o.strong <= 0 || grid.for_ranks(n).data > o.strong) continue;
    page.strong.push_back(study.strong(page.exchanges.back(), n, o.strong));
    if (!o.json) print_row(page.strong.back());
  }
  report(o, page);
  std::fflush(stdout);
  return ExitCode::done;
}

}  // namespace

void define_scale(app::CommandLine& line) {
  auto o = std::make_shared<ScaleOptions>();
  auto& v = line.subcommand("scale", "Simulate a measured step and its exchange of gradients on thousands of ranks",
                            [o](app::Launch& launch) { return run_scale(*o, launch); });
  o->subcommand = &v;
  v.option_without_default(
       "--profile", o->profile,
       "File with the output of keelson-bench step --plan --json; a second one, of smaller samples, "
       "says how much longer parts of samples take than their share",
       "FILE[,FILE]")
      .comma_separated();
  v.option(
      "--machine", o->machine,
      fmt::format("Machine: {}, or a JSON file like the output of --show-machine", fmt::join(machine_names(), ", ")),
      "NAME|FILE");
  v.option_without_default(
      "--compare", o->compare,
      "File with the output of keelson-bench allreduce --json on the machine: simulate these sums and print both times",
      "FILE");
  v.flag("--show-machine", o->show_machine, "Print the machine's description as JSON, and exit");
  v.option_without_default("--ranks", o->ranks, "Numbers of ranks; default: 1 to 512 nodes", "N,...")
      .comma_separated()
      .positive();
  v.option("--parallel", o->parallel,
           "The process grid: \"data 512 x space 4x4 x stage 2\"; an axis that is left out has one rank, or, for data, "
           "all ranks that the others leave",
           "GRID");
  v.option("--spatial", o->spatial,
           "Parts into which each sample is cut along its first spatial dimension, or along the first two (4x2)",
           "N|DxH");
  v.option("--stages", o->stages, "Parts of the network, one after the other, on as many ranks (1F1B)", "N").positive();
  v.option("--micro-batches", o->micro_batches,
           "Passes in which a replica computes its samples; 0: 4 x stages, at most the samples", "M")
      .non_negative();
  v.option_without_default("--exchange", o->exchange,
                           "Ways to exchange gradients: copied, blocking, buckets, overlap, hidden, two-level, "
                           "compressed; default: all that the machine and the grid have",
                           "WAY,...")
      .comma_separated();
  v.option("--step-ms", o->step_ms,
           "Milliseconds of a step on the machine; 0: the profile's FLOPs over the machine's rate in training", "MS")
      .non_negative();
  v.option("--samples", o->samples, "Samples of a replica and step, as a multiple of the profile's", "FACTOR")
      .positive();
  v.option(
       "--strong", o->strong,
       "Also simulate strong scaling, with so many samples for all ranks together (multiples of the profile's); 0: no",
       "SAMPLES")
      .non_negative();
  v.option("--bucket-bytes", o->bucket_bytes, "Size of buckets; K, M and G are powers of 1024", "SIZE").byte_size();
  v.option_without_default(
       "--imbalance", o->imbalance,
       "Standard deviation of a rank's time for a step, relative to that time; default: the machine's", "PART")
      .between(0, 1);
  v.option("--steps", o->steps, "Simulated steps; the mean is printed", "N").positive();
  v.option("--seed", o->seed, "Seed of the imbalance", "N").non_negative();
  v.option_without_default("--html", o->html, "Draw efficiency over ranks: one HTML page", "FILE").output();
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
