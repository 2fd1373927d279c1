#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/bench/peaks.hpp"
#include "apps/bench/subcommands.hpp"
#include "apps/bench/time_problem.hpp"
#include "apps/common/subcommand.hpp"
#include "backends/registry.hpp"

namespace keelson::bench {
namespace {

struct OpsOptions {
  std::vector<std::string> problem;
  std::string file, backend, device = "auto";
  Repeats repeats;
  bool json = false, remeasure = false;
};

struct Unsupported {
  std::string backend, reason;
};

struct ProblemResult {
  const Problem& problem;
  std::vector<VerbTime> times;  ///< of all backends
  std::vector<Unsupported> unsupported_reason;
};

std::vector<Problem> problems_of(const OpsOptions& o) {
  std::vector<Problem> problems;
  if (!o.problem.empty()) problems.push_back(parse_problem(fmt::format("{}", fmt::join(o.problem, " "))));
  if (!o.file.empty())
    for (auto& p : read_problems(o.file)) problems.push_back(std::move(p));
  if (problems.empty())
    refuse(
        "a problem is expected, e.g. conv src=1x4x64x64x64 filters=32 kernel=3 padding=same, or --file with one in "
        "each line");
  return problems;
}

/// Replaces the times by those of the slowest rank, on all ranks.
void slowest(std::vector<VerbTime>& times, Communicator& world) {
  for (auto& t : times) {
    double all[3] = {t.seconds.median, t.seconds.fastest, t.seconds.slowest};
    world.allreduce(all, 3, Reduction::max);
    t.seconds = {all[0], all[1], all[2]};
  }
}

using Contexts = std::vector<std::pair<std::string, std::unique_ptr<Context>>>;

ProblemResult solve(const Problem& problem, const Contexts& contexts, const Repeats& repeats, Communicator& world) {
  ProblemResult result{problem, {}, {}};
  for (const auto& [name, context] : contexts) {
    std::string why;
    world.barrier();
    auto times = time_problem(*context, problem, repeats, &why);
    if (times.empty()) result.unsupported_reason.push_back({name, why.substr(name.size() + 2)});  // "backend: reason"
    slowest(times, world);
    for (auto& t : times) result.times.push_back(std::move(t));
  }
  // The verbs of all backends side by side, in the order of the first backend.
  std::vector<std::string> verbs;
  for (const auto& t : result.times)
    if (std::find(verbs.begin(), verbs.end(), t.verb) == verbs.end()) verbs.push_back(t.verb);
  const auto place = [&](const VerbTime& t) { return std::find(verbs.begin(), verbs.end(), t.verb); };
  std::stable_sort(result.times.begin(), result.times.end(), [&](auto& a, auto& b) { return place(a) < place(b); });
  return result;
}

void print_text(const ProblemResult& r, const DevicePeaks& peaks) {
  fmt::print("\n{}\n", r.problem.text);
  std::size_t width = 6;
  for (const auto& t : r.times) width = std::max(width, t.kernel.size());
  if (!r.times.empty())
    fmt::print("  {:<16} {:<8} {:<{}} {:>9} {:>17} {:>9} {:>8} {:>9}\n", "verb", "backend", "kernel", width, "ms",
               "(fastest, slowest)", "GFLOP/s", "GB/s", "of peak");
  const VerbTime* first = nullptr;
  for (const auto& t : r.times) {
    const bool compared = first && first->verb == t.verb;
    if (!compared) first = &t;
    const double s = t.seconds.median;
    fmt::print("  {:<16} {:<8} {:<{}} {:>9.4f} {:>18} {:>9.1f} {:>8.1f} {:>7.1f} %{}\n", t.verb, t.backend, t.kernel,
               width, s * 1e3, fmt::format("({:.4f}, {:.4f})", t.seconds.fastest * 1e3, t.seconds.slowest * 1e3),
               t.cost.flops * 1e-9 / s, t.cost.bytes * 1e-9 / s, 100 * peaks.share(t.cost, s),
               compared ? fmt::format("  {:.2f} x the time of {}", s / first->seconds.median, first->backend) : "");
  }
  for (const auto& d : r.unsupported_reason) fmt::print("  {} declines: {}\n", d.backend, d.reason);
}

nlohmann::json json_of(const ProblemResult& r, const DevicePeaks& peaks) {
  nlohmann::json j{{"problem", r.problem.text}, {"results", nlohmann::json::array()}};
  for (const auto& t : r.times) {
    const double s = t.seconds.median;
    j["results"].push_back({{"verb", t.verb},
                            {"backend", t.backend},
                            {"kernel", t.kernel},
                            {"seconds", s},
                            {"seconds_fastest", t.seconds.fastest},
                            {"seconds_slowest", t.seconds.slowest},
                            {"gflop", t.cost.flops * 1e-9},
                            {"megabytes", t.cost.bytes * 1e-6},
                            {"gflop_per_second", t.cost.flops * 1e-9 / s},
                            {"gigabytes_per_second", t.cost.bytes * 1e-9 / s},
                            {"share_of_peak", peaks.share(t.cost, s)}});
  }
  j["declined"] = nlohmann::json::array();
  for (const auto& d : r.unsupported_reason) j["declined"].push_back({{"backend", d.backend}, {"reason", d.reason}});
  return j;
}

ExitCode run_ops(const OpsOptions& o, app::Launch& launch) {
  const auto problems = problems_of(o);
  Contexts contexts;
  for (const auto& name : backends::selected(o.backend))
    contexts.emplace_back(name, backends::make_context(o.device, name));
  auto& world = launch.world;
  const auto peaks = machine_peaks(*contexts.front().second, launch, o.remeasure);
  const auto device = contexts.front().second->device().describe();
  const bool speaks = world.rank() == 0;
  if (speaks && !o.json) fmt::print("{}; {}\nmachine's peaks: {}\n", launch.machine, device, describe(peaks));
  nlohmann::json all{{"ranks", world.size()},
                     {"machine", launch.machine},
                     {"device", device},
                     {"peaks", peaks_json(peaks)},
                     {"problems", nlohmann::json::array()}};
  for (const auto& problem : problems) {
    const auto result = solve(problem, contexts, o.repeats, world);
    if (!speaks) continue;
    if (o.json)
      all["problems"].push_back(json_of(result, peaks));
    else
      print_text(result, peaks);
    std::fflush(stdout);
  }
  if (speaks && o.json) fmt::print("{}\n", all.dump());
  std::fflush(stdout);
  return ExitCode::done;
}

}  // namespace

void define_ops(app::CommandLine& line) {
  auto o = std::make_shared<OpsOptions>();
  auto& v = line.subcommand("ops", "Time single operations, on several backends side by side",
                            [o](app::Launch& launch) { return run_ops(*o, launch); });
  v.positional(
      "problem", o->problem,
      "The op to time: conv, transposed_conv, dense, pool, eltwise, product, group_norm, attention or update with "
      "key=value words, e.g. conv src=1x4x64x64x64 filters=32 kernel=3 padding=same",
      "OP KEY=VALUE...");
  v.footer(problem_help());
  v.option_without_default("--file", o->file, "Problems, one per line", "FILE");
  v.option("--device", o->device, "Compute on cpu or cuda; auto: the device for which this build is made", "DEVICE");
  v.option_without_default("--backend", o->backend,
                           "Backends to compare, each alone; default: KEELSON_BACKEND, else all backends of this build",
                           "NAME,...");
  v.option("--repeats", o->repeats.timed, "Timed calls; the median is printed", "N").positive();
  v.option("--warmup", o->repeats.warmup, "Calls before the timed ones", "N").non_negative();
  option_remeasure(v, o->remeasure);
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
