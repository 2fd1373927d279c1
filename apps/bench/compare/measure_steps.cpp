#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <thread>

#include "apps/bench/compare/measurement.hpp"
#include "apps/bench/step_times.hpp"
#include "apps/bench/timing.hpp"
#include "comm/on_device.hpp"
#include "engine/execute/choose_precision.hpp"

namespace keelson::bench::comparison {
namespace {

constexpr std::size_t most_calls = 60;  ///< most calls of a step that the file keeps
constexpr double part_of_memory = 0.8;
constexpr double part_of_peak = 0.3;  ///< estimate of what a step reaches, to leave out steps that would take too long

/// Networks that --quick leaves out unless the user names them: making their plans and initial values takes seconds.
constexpr std::array<std::string_view, 3> slow_to_begin = {"deeplab-sc18", "tiramisu", "lstm-large"};

struct Case {
  std::string net, size;
};

std::vector<std::string> nets_of(const MeasureOptions& o) { return o.nets.empty() ? network_names() : o.nets; }

std::vector<Case> cases_of(const MeasureOptions& o) {
  auto sizes = o.sizes;
  if (sizes.empty())
    sizes = o.quick ? std::vector<std::string>{"small"} : std::vector<std::string>{"small", "published"};
  std::vector<Case> cases;
  for (const auto& net : nets_of(o))
    for (const auto& word : sizes) {
      const bool one = published_size(net).empty();
      const bool edge = published_size(net).find('x') == std::string::npos;
      Case c{net, word};
      if (word == "small" || one)
        c.size = small_size(net);
      else if (word == "published")
        c.size = published_size(net);
      else if ((word.find('x') == std::string::npos) != edge)
        continue;  // a size for other networks
      if (cases.empty() || cases.back().net != c.net || cases.back().size != c.size) cases.push_back(c);
    }
  return cases;
}

std::int64_t batch_of(const Measurement& s, const Network& net) {
  return s.options.batch > 0 ? s.options.batch : s.gpu() ? 8 * net.batch : net.batch;
}

double gflop_of(const std::vector<PlanRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0, [](double sum, const PlanRow& r) { return sum + r.gflop; });
}

/// Refuses a step for which this machine has not enough memory or time.
void require_room(const Measurement& s, const Plan& plan, const std::string& precision) {
  double bytes = 0;
  for (const auto& part : plan.memory()) bytes += static_cast<double>(part.second);
  const auto memory = s.device().memory();
  const double room =
      part_of_memory * static_cast<double>(memory.available) / (s.gpu() ? 1 : s.launch.world.local_size());
  if (memory.total > 0 && bytes > room)
    refuse("it needs {:.1f} GB for each rank, but only {:.1f} GB are available", bytes * 1e-9, room * 1e-9);
  if (!s.peaks.value) return;
  const double peak = std::max(s.peaks.value->of(precision), s.peaks.value->of("fp32"));
  const double seconds = peak > 0 ? gflop_of(plan.rows()) * 1e9 / (part_of_peak * peak) : 0;
  const double limit = s.options.step_limit > 0 ? s.options.step_limit : s.options.quick ? 1 : 8;
  if (seconds > limit) refuse("a step would take about {:.0f} s, more than --step-limit {:g}", seconds, limit);
}

std::vector<Call> longest_calls(std::vector<PlanRow> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.milliseconds > b.milliseconds; });
  std::vector<Call> calls;
  for (const auto& r : rows)
    if (r.milliseconds > 0 && calls.size() < most_calls)
      calls.push_back(
          {r.phase, r.node, r.op, r.backend, r.kernel, r.gflop, r.least_gflop, r.megabytes, r.milliseconds});
  return calls;
}

/// Steps of one network on some ranks, ready to be timed.
class Training {
 public:
  Training(const Measurement& s, Communicator& ranks, const Case& c, const std::string& precision)
      : measurement_(s),
        ranks_(ranks),
        net_(make_network(c.net, c.size)),
        grid_(ranks),
        parameters_(net_.graph, s.context(), 1) {
    PlanOptions options{.batch = batch_of(s, net_), .optimizer = net_.optimizer.get(), .grid = &grid_};
    options.exchange = s.exchange;
    options.precision = choose_precision(precision, net_.graph, s.context(), options);
    plan_.emplace(net_.graph, parameters_, options);
    require_room(s, *plan_, precision);
    executor_.emplace(*plan_, parameters_);
    fill_inputs(s.context(), net_, *executor_);
    step_ = first_step(*executor_);
  }

  /// Mean seconds of `count` steps.
  double time(int count) { return time_steps(count, *executor_, ranks_, measurement_.device(), step_); }
  Executor& executor() { return *executor_; }
  double samples() const { return static_cast<double>(executor_->batch() * ranks_.size()); }

 private:
  const Measurement& measurement_;
  Communicator& ranks_;
  Network net_;
  ProcessGrid grid_;
  Parameters parameters_;
  std::optional<Plan> plan_;
  std::optional<Executor> executor_;
  ops::StepParams step_;
};

/// The number of steps after which to wait for the device.
int steps_together(const Measurement& s) { return s.device().is_asynchronous() ? 10 : 1; }

/// Times as many steps as fit into seconds_for_steps(), after one step for warm-up.
std::vector<double> time_many(const Measurement& s, Training& training) {
  training.time(1);
  const int together = steps_together(s), least = s.options.quick ? 2 : 3, most = s.options.quick ? 10 : 50;
  std::vector<double> seconds{training.time(together)};
  const int count = std::clamp(static_cast<int>(s.seconds_for_steps() / (seconds[0] * together)), least, most);
  while (static_cast<int>(seconds.size()) < count) seconds.push_back(training.time(together));
  return seconds;
}

StepFigures time_network(Measurement& s, const Case& c, const std::string& precision) {
  using clock = std::chrono::steady_clock;
  if (s.options.quick && s.options.nets.empty() && std::ranges::find(slow_to_begin, c.net) != slow_to_begin.end())
    refuse("--quick leaves out {}, whose start takes long", c.net);
  Training training(s, s.ranks(), c, precision);
  const bool metered = s.energy.value.has_value();
  if (metered) s.meter.start();
  const auto start = clock::now();
  const auto all = time_many(s, training);
  double window = std::chrono::duration<double>(clock::now() - start).count();
  s.ranks().allreduce(&window, 1, Reduction::max);

  StepFigures f;
  const Timing t = summarize(all);
  f.seconds = t.median;
  f.fastest = t.fastest;
  f.slowest = t.slowest;
  f.steps = static_cast<int>(all.size()) * steps_together(s);
  f.samples_per_second = training.samples() / t.median;
  f.flops_per_second = gflop_of_step(training.executor()) * 1e9 * s.ranks().size() / t.median;
  if (metered) {
    const double joules = s.meter.joules(), samples = training.samples() * (f.steps + 1);
    f.energy.value =
        StepEnergy{joules / samples, (joules - s.energy.value->idle_watts * window) / samples, joules / window, window};
  } else {
    f.energy.reason = s.energy.reason;
  }
  const double peak = s.peaks.value ? s.peaks.value->of(precision) : 0;
  if (peak > 0)
    f.share_of_peak.value = f.flops_per_second / (peak * s.ranks().size());
  else
    f.share_of_peak.reason = fmt::format("no peak in {} was measured", precision);

  training.executor().set_profiling(true);
  training.time(1);
  f.calls = longest_calls(training.executor().rows());
  return f;
}

}  // namespace

void check(const MeasureOptions& o) {
  const auto known = network_names();
  for (const auto& net : o.nets)
    if (std::find(known.begin(), known.end(), net) == known.end())
      refuse("--nets: no network '{}'; there are {}", net, fmt::join(known, ", "));
  const auto cases = cases_of(o);
  for (const auto& net : nets_of(o))
    if (std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return c.net == net; }))
      refuse("--sizes {}: none is a size of {}, expected small, published, or {}; or leave it out of --nets",
             fmt::join(o.sizes, ","), net, published_size(net));
  for (const auto& c : cases) make_network(c.net, c.size);
  const auto words = precisions();
  for (const auto& p : o.precisions)
    if (p == "auto" || p == "default" || std::find(words.begin(), words.end(), p) == words.end())
      refuse("--precisions: found '{}', expected some of fp32, tf32, bf16, fp16", p);
}

std::vector<Step> measure_steps(Measurement& s) {
  std::vector<Step> steps;
  const auto cases = cases_of(s.options);
  const auto precisions = s.precisions();
  const std::size_t all = cases.size() * precisions.size();
  for (const auto& c : cases)
    for (const auto& precision : precisions) {
      const Network net = make_network(c.net, c.size);
      Step step{c.net, c.size, precision, net.title, net.unit, net.units_per_sample, batch_of(s, net), {}};
      step.figures = attempt(s.launch.world, [&] { return time_network(s, c, precision); });
      const auto& f = step.figures;
      s.tell("{}/{} {}, {}: {}", steps.size() + 1, all, net.title, precision,
             f.value ? fmt::format("{:.4g} samples/s", f.value->samples_per_second) : "left out, " + f.reason);
      steps.push_back(std::move(step));
    }
  return steps;
}

Scaling measure_scaling(Measurement& s) {
  auto& world = s.launch.world;
  if (world.size() == 1)
    refuse(
        "weak scaling needs more than one rank: start this under mpirun or srun, with as many ranks as the machine has "
        "devices");
  const Case c = cases_of(s.options).front();
  const auto precision = s.precisions().back();
  Scaling result{c.net, c.size, precision, batch_of(s, make_network(c.net, c.size)), {}};
  std::vector<int> counts;
  for (int n = 1; n < world.size(); n *= 2) counts.push_back(n);
  counts.push_back(world.size());
  for (const int n : counts) {
    const auto part = world.split(world.rank() < n ? 0 : -1, world.rank());
    double rate = 0;
    const auto ended = world.make_broadcast(&rate, sizeof rate, 0, fmt::format("scaling on {} ranks", n));
    std::string why;
    if (part) {
      try {
        const auto ranks = comm::on_device(*part, s.device());
        Training training(s, *ranks, c, precision);
        rate = training.samples() / summarize(time_many(s, training)).median;
      } catch (const InputError& error) {
        why = error.what();
      } catch (const OutOfMemory& error) {
        why = error.what();
      }
    }
    ended->start();
    while (!ended->test())
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // leaves the core to the ranks at work
    for (const auto& text : world.allgather(why))
      if (!text.empty()) refuse("{}", text);
    const double alone = result.points.empty() ? rate : result.points.front().samples_per_second;
    result.points.push_back({n, rate, rate / (alone * n)});
    s.tell("scaling, {} rank{}: {:.4g} samples/s, efficiency {:.1f} %", n, n == 1 ? "" : "s", rate,
           100 * result.points.back().efficiency);
  }
  return result;
}

}  // namespace keelson::bench::comparison
