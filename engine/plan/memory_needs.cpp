#include "engine/plan/memory_needs.hpp"

#include <cmath>
#include <optional>

#include "engine/tune/autotuner.hpp"

namespace keelson {

namespace {

using Needs = std::vector<std::pair<std::string, double>>;  ///< bytes

Needs needs_of(const Graph& graph, Context& context, PlanOptions options, std::int64_t batch) {
  options.batch = batch;
  options.noise_scale = false;       // needs several parts of a step, and hardly any memory
  std::optional<ProcessGrid> alone;  // other ranks may have enough memory, and do not come here
  if (options.grid)
    options.grid = &alone.emplace(ProcessGrid::Extents{.data = 1,
                                                       .space = options.grid->extent(ProcessGrid::Axis::space),
                                                       .columns = options.grid->columns(),
                                                       .channel = options.grid->extent(ProcessGrid::Axis::channel)},
                                  options.grid->number({ProcessGrid::Axis::space, ProcessGrid::Axis::channel}));
  options.peers = nullptr;
  const Autotuner::RulesOfThumb rules(context.device().autotuner());  // a full device is none to time anything on
  Parameters parameters(graph, context, 1);
  const Plan plan(graph, parameters, options);
  Needs needs;
  for (const auto& [what, bytes] : plan.memory()) needs.emplace_back(what, static_cast<double>(bytes));
  return needs;
}

double total(const Needs& needs) {
  double sum = 0;
  for (const auto& [what, bytes] : needs) sum += bytes;
  return sum;
}

/// The needs of so many units, which grow linearly from one unit to two.
Needs extrapolate(const Needs& one, const Needs& two, std::int64_t units) {
  Needs needs = one;
  for (std::size_t i = 0; i < needs.size(); ++i)
    needs[i].second += static_cast<double>(units - 1) * (two[i].second - one[i].second);
  return needs;
}

std::string size(double bytes) {
  constexpr double mebi = 1024.0 * 1024.0;
  return bytes >= 1024 * mebi ? fmt::format("{:.1f} GiB", bytes / mebi / 1024)
                              : fmt::format("{:.1f} MiB", bytes / mebi);
}

std::string list(const Needs& needs) {
  std::string text;
  for (const auto& [what, bytes] : needs) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, size(bytes));
  return text;
}

}  // namespace

void require_memory_for_parameters(const Graph& graph, Context& context, const UpdateRule& optimizer) {
  const auto elements_of = [](const Shape& shape) {  // an integer may be too small
    double elements = 1;
    for (const auto d : shape) elements *= static_cast<double>(d);
    return elements;
  };
  const std::size_t states = optimizer.state_names().size();
  double count = 0, floats = 0;
  for (const auto& p : graph.parameters()) {
    const double elements = elements_of(p.shape);
    count += elements;
    floats += (optimizer.reads_ahead() ? 3 : 2) * elements;
    for (std::size_t i = 0; i < states; ++i) {
      const auto own = optimizer.own_state_shape(i, p.shape, p.product_inputs);
      floats += own ? elements_of(*own) : elements;
    }
  }
  const double needed = floats * sizeof(float);
  const auto memory = context.device().memory();
  const auto available = static_cast<double>(memory.available);
  if (memory.total > 0 && needed > available)  // 0: not known
    refuse(
        "{:.3g} parameters with {:.3g} numbers in all (values, gradients, the optimizer's state) need {}, but {} are "
        "available on {}: give a smaller network, or raise --memory-limit if it is set",
        count, floats, size(needed), size(available), context.device().describe());
}

std::string describe_memory_needs(const Graph& graph, Context& context, PlanOptions options) {
  const double available = static_cast<double>(context.device().memory().available);
  const std::string device = context.device().describe();
  try {
    const std::int64_t unit = options.micro_batch_count;  // memory grows with the samples of a micro-batch
    const Needs one = needs_of(graph, context, options, unit), two = needs_of(graph, context, options, 2 * unit);
    const Needs wanted = extrapolate(one, two, options.batch / unit);
    const double slope = total(two) - total(one);
    const auto fits = unit * (1 + static_cast<std::int64_t>(std::floor((available - total(one)) / slope)));
    const std::string advice =
        fits < 1               ? fmt::format("not even a batch of {} fits", unit)
        : fits < options.batch ? fmt::format("a batch of {} fits", fits)
                               : std::string("what else the run allocates does not fit beside it: try a smaller batch");
    return fmt::format("a batch of {} needs {} ({}), but {} are available on {}; {}", options.batch,
                       size(total(wanted)), list(wanted), size(available), device, advice);
  } catch (const OutOfMemory& e) {
    return fmt::format("{} are available on {}, where not even a batch of {} fits: {}", size(available), device,
                       2 * options.micro_batch_count, e.what());
  }
}

}  // namespace keelson
