#include "engine/train/choose_stages.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/execute/executor.hpp"
#include "engine/graph/topology.hpp"
#include "engine/plan/fuse.hpp"
#include "engine/plan/stage_parts.hpp"
#include "engine/tune/tuning_ranks.hpp"
#include "engine/tune/wall_clock_timer.hpp"

namespace keelson {
namespace {

/// Of the way in which stages are measured, part of the key. Raise the number when older answers must not be used.
constexpr int stages_version = 1;

/// Node of a plan by the name that rows of its calls have: that of the node, or of a parameter in the update.
std::map<std::string, std::string> node_names(const FusedNodes& fused) {
  std::map<std::string, std::string> names;
  for (const Graph::Node& n : fused.nodes) {
    if (n.is_input()) continue;
    names[n.name] = n.name;
    std::vector<ValueShape> shapes;
    for (const int s : n.srcs) shapes.push_back(fused.nodes[static_cast<std::size_t>(s)].shape);
    for (const ParameterSpec& p : n.layer->parameters(shapes)) names.emplace(n.parameter(p.name), n.name);
  }
  return names;
}

/// Seconds of each node in a step of one rank with all layers; no value where a rank has no room for them.
std::optional<std::map<std::string, double>> measure(const Graph& graph, Context& context, Communicator& world,
                                                     const PlanOptions& step) {
  PlanOptions options = step;
  options.batch = step.micro_batch_size();
  options.micro_batch_count = 1;
  options.exchange = {};
  options.grid = nullptr;
  options.peers = &world;
  options.stage_starts.clear();
  std::optional<Parameters> parameters;
  std::optional<Executor> executor;
  try {
    parameters.emplace(graph, context, 1);
    executor.emplace(graph, *parameters, options);
  } catch (const OutOfMemory&) {
    executor.reset();
  }
  double without = executor ? 0 : 1;
  world.allreduce(&without, 1, Reduction::max);
  if (without > 0) return std::nullopt;
  ops::StepParams params;
  params.step = 1;  // calls with a period do not run
  params.inverse_samples = 1.0f / static_cast<float>(options.batch);
  constexpr int passes = 4;  // the first warms up caches and threads
  for (int i = 0; i < passes; ++i) {
    if (i == 1) executor->set_profiling(true);
    world.barrier();
    executor->forward(params);
    executor->backward();
    if (options.optimizer) executor->update();
  }
  context.device().fence();
  const auto names = node_names(fuse(graph, options));
  std::map<std::string, double> seconds;
  for (const auto& [row, node] : names) seconds[node] = 0;
  for (const PlanRow& row : executor->rows())
    if (const auto node = names.find(row.node); node != names.end())
      seconds[node->second] +=
          row.milliseconds * 1e-3 * (row.phase == "update" ? 1 : static_cast<double>(step.micro_batches()));
  std::vector<double> values;
  for (const auto& [node, s] : seconds) values.push_back(s);
  world.allreduce(values.data(), values.size(), Reduction::sum);
  for (auto [at, i] = std::pair(seconds.begin(), std::size_t{0}); at != seconds.end(); ++at, ++i)
    at->second = values[i] / world.size();
  return seconds;
}

std::string key(const Graph& graph, Context& context, int stages, const PlanOptions& o) {
  const std::string network = Topology(graph).to_text();
  return fmt::format("stages v{}, network {:016x}, {} stages, {} of {}, {}, {} threads", stages_version,
                     fnv1a(network.data(), network.size()), stages, counted(o.micro_batches(), "pass"),
                     counted(o.micro_batch_size(), "sample"), to_string(o.precision),
                     context.device().current_instance().concurrency());
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> all;
  for (std::string word; std::getline(words, word, '|');) all.push_back(word);
  return all;
}

}  // namespace

std::vector<std::string> choose_stage_starts(const Graph& graph, Context& context, Communicator& world, int stages,
                                             const PlanOptions& options) {
  if (stages == 1) return {};
  const auto text_of = [](const std::vector<std::string>& starts) { return fmt::format("{}", fmt::join(starts, "|")); };
  std::string estimated = text_of(estimated_stage_starts(graph, stages));
  const Autotuner* const of_device = context.device().autotuner();
  Autotuner autotuner("stages-" + (of_device ? of_device->file().stem().string() : context.device().describe()),
                      std::make_unique<WallClockTimer>(), tuning_ranks(&world));
  const auto usable = [&](const std::string& text) { return std::ssize(words_of(text)) == stages - 1; };
  return words_of(autotuner.choose_value(key(graph, context, stages, options), estimated, usable, [&] {
    const auto seconds = measure(graph, context, world, options);
    if (!seconds) return estimated;
    return text_of(stage_starts(graph, fuse(graph, options), *seconds, stages));
  }));
}

std::int64_t default_micro_batches(std::int64_t samples, int stages) {
  if (stages == 1) return 1;
  std::int64_t count = std::min<std::int64_t>(samples, std::int64_t{4} * stages);
  while (samples % count != 0) --count;
  return count;
}

}  // namespace keelson
