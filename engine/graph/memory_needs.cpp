#include "engine/graph/memory_needs.hpp"

#include <cmath>

namespace keelson {

namespace {

using Needs = std::vector<std::pair<std::string, double>>;  ///< GiB

constexpr double gibi = 1024.0 * 1024.0 * 1024.0;

Needs needs_of(const Graph& graph, Context& context, PlanOptions options, std::int64_t batch) {
  options.batch = batch;
  options.communicator = nullptr;  // other ranks may have had room
  Parameters parameters(graph, context, 1);
  const Plan plan(graph, parameters, options);
  Needs needs;
  for (const auto& [what, bytes] : plan.memory()) needs.emplace_back(what, static_cast<double>(bytes) / gibi);
  return needs;
}

double total(const Needs& needs) {
  double sum = 0;
  for (const auto& [what, gib] : needs) sum += gib;
  return sum;
}

/// Of so many samples, along the straight line through the needs of one and of two.
Needs extrapolate(const Needs& one, const Needs& two, std::int64_t batch) {
  Needs needs = one;
  for (std::size_t i = 0; i < needs.size(); ++i)
    needs[i].second += static_cast<double>(batch - 1) * (two[i].second - one[i].second);
  return needs;
}

std::string list(const Needs& needs) {
  std::string text;
  for (const auto& [what, gib] : needs) text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", what, gib);
  return text;
}

}  // namespace

std::string describe_memory_needs(const Graph& graph, Context& context, PlanOptions options) {
  const double available = static_cast<double>(context.device().memory().available) / gibi;
  const std::string device = context.device().describe();
  try {
    const Needs one = needs_of(graph, context, options, 1), two = needs_of(graph, context, options, 2);
    const Needs wanted = extrapolate(one, two, options.batch);
    const double slope = total(two) - total(one);
    const auto fits = 1 + static_cast<std::int64_t>(std::floor((available - total(one)) / slope));
    return fmt::format(
        "a batch of {} needs {:.2f} GiB on {} ({}), but {:.2f} GiB are available; {}", options.batch, total(wanted), device,
        list(wanted), available,
        fits < options.batch ? fmt::format("a batch of {} fits", fits)
                             : std::string("what else the run allocates does not fit beside it: try a smaller batch"));
  } catch (const OutOfMemory& e) {
    return fmt::format("{:.2f} GiB are available on {}, which is not enough for a batch of {}: {}", available, device,
                       options.batch > 2 ? 2 : 1, e.what());
  }
}

}  // namespace keelson
