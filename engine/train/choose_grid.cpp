#include "engine/train/choose_grid.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/execute/executor.hpp"
#include "engine/graph/topology.hpp"
#include "engine/plan/fuse.hpp"
#include "engine/plan/stage_parts.hpp"
#include "engine/train/choose_stages.hpp"
#include "engine/train/training_grid.hpp"
#include "engine/tune/slowest_rank_timer.hpp"
#include "engine/tune/tuning_ranks.hpp"
#include "engine/tune/wall_clock_timer.hpp"

namespace keelson {
namespace {

constexpr std::size_t most_measured = 4;
constexpr double worth_measuring = 1.5;  ///< times the best estimate
constexpr double as_fast = 1.03;         ///< times the best time: the grid with fewer parts wins

/// Of the way in which grids are measured, part of the key. Raise the number when older answers must not be used.
constexpr int grid_version = 3;

/// What a message between two neighbours costs.
struct MessageCost {
  double latency = 0, per_byte = 0;  ///< seconds
};

/// The calls of one rank's plan on a grid, by what they compute: phase, node, op.
using Work = std::map<std::tuple<std::string, std::string, std::string>, PlanRow>;

Work work_of(const std::vector<PlanRow>& rows) {
  Work all;
  for (const PlanRow& r : rows) {
    PlanRow& sum = all[{r.phase, r.node, r.op}];
    sum.gflop += r.gflop;
    sum.megabytes += r.megabytes;
    sum.milliseconds += r.milliseconds;
    sum.sent_megabytes += r.sent_megabytes;
  }
  return all;
}

bool is_possible(const GridCandidate& c) { return c.refusal.empty(); }

class GridChooser {
 public:
  GridChooser(const Graph& graph, Context& context, Communicator& world, std::int64_t global_batch,
              const PlanOptions& options)
      : graph_(graph), context_(context), world_(world), global_batch_(global_batch), options_(options) {}

  std::vector<GridCandidate> candidates();
  void measure(std::vector<GridCandidate>& all, bool every_one);
  std::string key(const std::vector<GridCandidate>& all) const;

 private:
  PlanOptions options_for(const GridCandidate& c, const ProcessGrid& grid) const;
  std::string refusal(const GridCandidate& c) const;
  std::string refusal_of_parts(const GridCandidate& c) const;
  bool mixes_samples() const {
    return std::ranges::any_of(graph_.nodes(),
                               [](const Graph::Node& n) { return !n.srcs.empty() && n.layer->mixes_samples(); });
  }
  [[noreturn]] void refuse_all(const std::vector<GridCandidate>& all) const;
  std::vector<PlanRow> rows_by_rule(GridCandidate& c);
  void fit_memory(GridCandidate& c);
  void measure(GridCandidate& c, std::vector<PlanRow>* profile);
  bool has_stage_starts(GridCandidate& c);
  void estimate(GridCandidate& c);
  static double times_a_step(const GridCandidate& c, const std::string& phase);
  double message_seconds(const GridCandidate& c, const Work& all) const;
  MessageCost message_cost();
  double largest(double value) const {
    world_.allreduce(&value, 1, Reduction::max);
    return value;
  }

  const Graph& graph_;
  Context& context_;
  Communicator& world_;
  std::int64_t global_batch_;
  PlanOptions options_;
  // Of the grid that was profiled:
  Work profile_, by_rule_;              ///< times of the calls; work of the calls of a plan by rules of thumb
  double outside_calls_ = 0;            ///< seconds of a step that no call explains
  double flops_ = 1e-9, bytes_ = 1e-9;  ///< best GFLOP/s and MB/s of any call
  MessageCost message_;
  std::map<int, std::vector<std::string>> stage_starts_;  ///< measured, by number of stages
};

PlanOptions GridChooser::options_for(const GridCandidate& c, const ProcessGrid& grid) const {
  PlanOptions o = options_;
  o.batch = c.batch;
  o.micro_batch_count = c.micro_batches;
  o.grid = &grid;
  o.peers = nullptr;
  if (world_.survives_losses()) o.whole_parameters = true;
  if (const auto measured = stage_starts_.find(c.extents.stage); measured != stage_starts_.end())
    o.stage_starts = measured->second;
  return o;
}

/// Without memory. The same on all ranks.
std::string GridChooser::refusal(const GridCandidate& c) const {
  if (global_batch_ % c.extents.data != 0)
    return fmt::format("{} cannot be shared out evenly among {}", counted(global_batch_, "sample"),
                       counted(c.extents.data, "replica"));
  if (c.batch % options_.micro_batch_count != 0)
    return fmt::format("{} of a replica cannot be divided into {} micro-batches", counted(c.batch, "sample"),
                       options_.micro_batch_count);
  return ranks_of(c.extents) == 1 ? "" : refusal_of_parts(c);
}

/// Why the ranks of a replica cannot share the work along the axis of the grid.
std::string GridChooser::refusal_of_parts(const GridCandidate& c) const {
  const ProcessGrid::Extents& e = c.extents;
  if (options_.exchange.reproducible) return "reproducible sums need whole samples and layers";
  if (options_.noise_scale) return "the noise scale needs gradients of whole samples on a rank";
  if (e.channel > 1 && options_.optimizer && options_.optimizer->needs_whole_parameters())
    return "the optimizer needs whole parameters";
  if (e.space == 1) {
    if (options_.exchange.shards != OptimizerShards::none) return "the optimizer in shards needs whole parameters";
    if (options_.lag) return "gradients of the step before need whole parameters";
    if (world_.survives_losses()) return "ranks that are lost would take their part of the parameters with them";
  }
  if (e.stage > 1 && mixes_samples()) return "a layer computes with all samples of a batch together";
  ProcessGrid::Extents replica = e;
  replica.data = 1;
  const ProcessGrid grid(replica, 0);
  PlanOptions o = options_for(c, grid);
  try {
    const SpatialParts parts = stage_parts(graph_, fuse(graph_, o), o);
    if (e.space > 1 && parts.inputs.empty())
      return fmt::format("no input of the network can be cut into {} parts", e.space);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// The calls of this rank on the grid, of a plan that is made without the others and without measuring. Finds out how
/// much memory the grid needs. Collective.
std::vector<PlanRow> GridChooser::rows_by_rule(GridCandidate& c) {
  const Autotuner::RulesOfThumb rules(context_.device().autotuner());
  const ProcessGrid grid(c.extents, world_.rank());
  const auto memory = context_.device().memory();
  std::vector<PlanRow> rows;
  double bytes = 0, fits = 1;
  std::string why;
  try {
    Parameters parameters(graph_, context_, 1);
    const Plan plan(graph_, parameters, options_for(c, grid));
    rows = plan.rows();
    for (const auto& [what, of] : plan.memory()) bytes += static_cast<double>(of);
  } catch (const OutOfMemory&) {
    fits = 0;
  } catch (const InputError& error) {
    why = error.what();
  }
  for (const std::string& of_rank : world_.allgather(why))
    if (!of_rank.empty()) {
      c.refusal = of_rank;
      c.bytes = 0;
      return {};
    }
  const auto available = static_cast<double>(memory.available);
  if (memory.total > 0 && bytes > available) fits = 0;
  c.bytes = largest(bytes);
  if (-largest(-fits) == 0)
    c.refusal = fmt::format("needs {:.1f} GiB on a rank that has {:.1f} GiB", c.bytes / (1u << 30),
                            -largest(-available) / (1u << 30));
  return rows;
}

/// Takes as many micro-batches as the memory asks for. Collective.
void GridChooser::fit_memory(GridCandidate& c) {
  rows_by_rule(c);
  const bool may_accumulate =
      !options_.exchange.reproducible && options_.exchange.shards != OptimizerShards::gradients && !mixes_samples();
  while (!c.refusal.empty() && c.bytes > 0 && may_accumulate && c.micro_batches < c.batch) {
    do ++c.micro_batches;
    while (c.batch % c.micro_batches != 0);
    c.refusal.clear();
    rows_by_rule(c);
  }
}

std::vector<GridCandidate> GridChooser::candidates() {
  std::vector<GridCandidate> all;
  using Extents = ProcessGrid::Extents;
  for (int parts = 1; parts <= world_.size(); ++parts) {
    if (world_.size() % parts != 0) continue;
    for (int Extents::* const axis : {&Extents::space, &Extents::channel, &Extents::stage}) {
      GridCandidate c{.extents = {.data = world_.size() / parts}};
      c.extents.*axis = parts;
      c.batch = global_batch_ / c.extents.data;
      c.micro_batches = options_.micro_batch_count;
      if (c.micro_batches == 1 && c.batch > 0) c.micro_batches = default_micro_batches(c.batch, c.extents.stage);
      c.refusal = refusal(c);
      if (c.refusal.empty()) fit_memory(c);
      all.push_back(std::move(c));
      if (parts == 1) break;
    }
  }
  if (std::ranges::none_of(all, is_possible)) refuse_all(all);
  return all;
}

void GridChooser::refuse_all(const std::vector<GridCandidate>& all) const {
  std::vector<std::string> refusals;
  for (const GridCandidate& c : all) refusals.push_back(c.name() + ": " + c.refusal);
  refuse(
      "no process grid of {} can train this network with {} a step ({}). Give another --global-batch or number of "
      "ranks",
      counted(world_.size(), "rank"), counted(global_batch_, "sample"), fmt::join(refusals, "; "));
}

/// Some steps on zeros. `profile`: also gets the times of the calls. Collective.
void GridChooser::measure(GridCandidate& c, std::vector<PlanRow>* profile) {
  const ProcessGrid grid(world_, c.extents);
  std::optional<Parameters> parameters;
  std::optional<Executor> made;
  try {
    parameters.emplace(graph_, context_, 1);
    made.emplace(graph_, *parameters, options_for(c, grid));
  } catch (const OutOfMemory&) {
    made.reset();
  }
  if (largest(made ? 0 : 1) > 0) {
    c.refusal = fmt::format("needs more than {:.1f} MiB on a rank, and found no room", c.bytes / (1 << 20));
    return;
  }
  Executor& executor = *made;
  ops::StepParams params;
  params.step = 1;  // calls with a period do not run
  params.inverse_samples = 1.0f / static_cast<float>(global_batch_);
  const auto passes = executor.plan().passes();
  const auto step = [&](std::size_t) {
    for (const Pass& pass : passes)
      if (pass.backward)
        executor.backward(pass.micro_batch);
      else
        executor.forward(params, pass.micro_batch);
    if (options_.optimizer) executor.update();
    executor.finish_exchange();
    context_.device().fence();
    return true;
  };
  SlowestRankTimer timer({[&] { world_.barrier(); },
                          [&](double* values, std::size_t count) { world_.allreduce(values, count, Reduction::max); }},
                         1, 0);
  c.measured = timer.time(1, step)[0];
  if (!profile) return;
  executor.set_profiling(true);
  for (int i = 0; i < 3; ++i) step(0);
  *profile = executor.rows();
}

/// Of messages between each two neighbouring ranks, all at the same time. Collective.
MessageCost GridChooser::message_cost() {
  constexpr std::size_t small = 64, large = 1 << 18;
  constexpr int messages = 11;
  const int peer = world_.rank() ^ 1;
  Device& device = context_.device();
  const auto out = device.allocate(large, "message"), in = device.allocate(large, "message");
  const auto seconds_of = [&](std::size_t bytes) {
    std::vector<double> seconds;
    if (peer < world_.size()) {
      const auto send = world_.make_send(out.get(), bytes, peer, "message"),
                 receive = world_.make_receive(in.get(), bytes, peer, "message");
      for (int i = 0; i < messages; ++i) {
        const double begin = steady_seconds();
        receive->start(), send->start();
        receive->wait(), send->wait();
        seconds.push_back(steady_seconds() - begin);
      }
      std::nth_element(seconds.begin(), seconds.begin() + messages / 2, seconds.end());
    }
    return largest(seconds.empty() ? 0 : seconds[messages / 2]);
  };
  const double latency = seconds_of(small);
  return {latency, std::max(0.0, seconds_of(large) - latency) / (large - small)};
}

/// How often a step makes the calls of this phase, or waits while another stage does.
double GridChooser::times_a_step(const GridCandidate& c, const std::string& phase) {
  const bool repeated = phase == "forward" || phase == "backward";
  return repeated ? static_cast<double>(c.micro_batches + c.extents.stage - 1) : 1;
}

/// Of the exchanges of rows, which a step waits for.
double GridChooser::message_seconds(const GridCandidate& c, const Work& all) const {
  double seconds = 0;
  for (const auto& [what, work] : all)
    if (work.sent_megabytes > 0)
      seconds +=
          times_a_step(c, std::get<0>(what)) * (message_.latency + work.sent_megabytes * 1e6 * message_.per_byte);
  return seconds;
}

/// Collective.
void GridChooser::estimate(GridCandidate& c) {
  const Work all = work_of(rows_by_rule(c));
  double seconds = outside_calls_ + message_seconds(c, all);
  for (const auto& [what, work] : all) {
    const double times = times_a_step(c, std::get<0>(what));
    const auto at_peak = [&](const PlanRow& r) { return std::max(r.gflop / flops_, r.megabytes / bytes_); };
    const auto timed = profile_.find(what), known = by_rule_.find(what);
    // What a call takes beyond the peaks it also takes on another part of the same value.
    if (timed != profile_.end() && known != by_rule_.end() && at_peak(known->second) > 0)
      seconds += times * timed->second.milliseconds * 1e-3 * at_peak(work) / at_peak(known->second);
    else
      seconds += times * at_peak(work);
  }
  c.estimated = largest(seconds);
}

/// Measures where the stages of the grid begin. Refuses the grid if fused layers are fewer than its stages. Collective.
bool GridChooser::has_stage_starts(GridCandidate& c) {
  const int stages = c.extents.stage;
  if (stages == 1) return true;
  const ProcessGrid grid(c.extents, world_.rank());
  try {
    stage_starts_[stages] = choose_stage_starts(graph_, context_, world_, stages, options_for(c, grid));
  } catch (const InputError& e) {
    c.refusal = e.what();
  }
  return is_possible(c);
}

void GridChooser::measure(std::vector<GridCandidate>& all, bool every_one) {
  const auto next_possible = [&] { return std::ranges::find_if(all, is_possible); };
  auto first = next_possible();
  std::vector<PlanRow> profile;
  for (; first != all.end() && first->measured == 0; first = next_possible()) {
    measure(*first, &profile);
    if (first->measured > 0) break;
  }
  if (first == all.end()) refuse_all(all);
  by_rule_ = work_of(rows_by_rule(*first));
  profile_ = work_of(profile);
  double in_calls = 0;
  for (const PlanRow& r : profile) {
    if (r.backend.empty()) continue;  // a communication
    in_calls += r.milliseconds * 1e-3 * times_a_step(*first, r.phase);
    flops_ = std::max(flops_, r.gflop_per_second());
    bytes_ = std::max(bytes_, r.megabytes / std::max(r.milliseconds * 1e-3, 1e-9));
  }
  message_ = message_cost();
  outside_calls_ = std::max(0.0, largest(first->measured - in_calls) - message_seconds(*first, profile_));
  std::vector<GridCandidate*> possible;
  for (GridCandidate& c : all) {
    if (!is_possible(c)) continue;
    if (!has_stage_starts(c)) continue;
    estimate(c);
    possible.push_back(&c);
  }
  const auto by_estimate = [](const GridCandidate* a, const GridCandidate* b) { return a->estimated < b->estimated; };
  std::ranges::stable_sort(possible, by_estimate);
  const double best = possible[0]->estimated;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    const bool worth = i < most_measured && possible[i]->estimated <= worth_measuring * best;
    if (possible[i]->measured == 0 && (every_one || worth)) measure(*possible[i], nullptr);
  }
}

/// All that an answer depends on.
std::string GridChooser::key(const std::vector<GridCandidate>& all) const {
  std::string grids;
  for (const GridCandidate& c : all) grids += is_possible(c) ? c.name() + ", " : "";
  const std::string network = Topology(graph_).to_text() + grids;
  return fmt::format("process grid v{}, network {:016x}, {} a step, {} micro-batches, {}, {} on {}, {} threads",
                     grid_version, fnv1a(network.data(), network.size()), counted(global_batch_, "sample"),
                     options_.micro_batch_count, to_string(options_.precision), counted(world_.size(), "rank"),
                     counted(world_.nodes(), "node"), context_.device().current_instance().concurrency());
}

/// The fastest; with fewer parts where that is as fast.
std::size_t fastest(const std::vector<GridCandidate>& all) {
  double best = 0;
  for (const GridCandidate& c : all)
    if (c.measured > 0 && (best == 0 || c.measured < best)) best = c.measured;
  const auto wins = [&](const GridCandidate& c) { return c.measured > 0 && c.measured <= as_fast * best; };
  return static_cast<std::size_t>(std::ranges::find_if(all, wins) - all.begin());
}

}  // namespace

std::string GridCandidate::name() const { return ProcessGrid(extents, 0).describe(); }

GridChoice choose_grid(const Graph& graph, Context& context, Communicator& world, std::int64_t global_batch,
                       const PlanOptions& options, const GridChoiceOptions& how) {
  GridChooser chooser(graph, context, world, global_batch, options);
  GridChoice choice{chooser.candidates()};
  const auto index_of = [&](const std::string& name) {
    const auto is_it = [&](const GridCandidate& c) { return is_possible(c) && c.name() == name; };
    return static_cast<std::size_t>(std::ranges::find_if(choice.candidates, is_it) - choice.candidates.begin());
  };
  const auto measured = [&] {
    chooser.measure(choice.candidates, how.measure_all);
    choice.reason = "measured";
    return choice.candidates[fastest(choice.candidates)].name();
  };
  if (how.measure_all) {
    choice.chosen = index_of(measured());
    return choice;
  }
  const Autotuner* const of_device = context.device().autotuner();
  Autotuner autotuner("grid-" + (of_device ? of_device->file().stem().string() : context.device().describe()),
                      std::make_unique<WallClockTimer>(), tuning_ranks(&world));
  const auto usable = [&](const std::string& name) { return index_of(name) < choice.candidates.size(); };
  const std::string answer = autotuner.choose_value(
      chooser.key(choice.candidates), std::ranges::find_if(choice.candidates, is_possible)->name(), usable, measured);
  choice.chosen = index_of(answer);
  if (choice.reason.empty())
    choice.reason = autotuner.measures() ? "kept from an earlier start in " + autotuner.file().string()
                                         : "the fewest parts, since KEELSON_TUNE=off measures nothing";
  return choice;
}

ProcessGrid::Extents fewest_parts(int ranks, std::int64_t global_batch) {
  for (int parts = 1; parts <= ranks; ++parts)
    if (ranks % parts == 0 && global_batch % (ranks / parts) == 0) return {.data = ranks / parts, .space = parts};
  refuse("a batch of {}: expected at least 1 sample", global_batch);
}

}  // namespace keelson
