#include "apps/common/parallel_option.hpp"

#include <fmt/ranges.h>

#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/channel_layers.hpp"
#include "engine/plan/plan.hpp"
#include "engine/plan/spatial_parts.hpp"
#include "engine/train/choose_grid.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {

ProcessGrid::Extents RequestedReplica::extents() const {
  auto e = ProcessGrid::parse_blocks(spatial);
  e.channel = channel_parallel;
  e.stage = stages;
  return e;
}

void declare(RequestedGrid& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option("--parallel", o.parallel,
           "How ranks share the work: data, each has samples of its own; a process grid, such as \"data 4 x space 2\"; "
           "auto: the grid that is fastest here and fits the memory, measured at the start. auto divides the samples "
           "of --global-batch, or --batch for each rank",
           "GRID")
      .not_stored();
  declare(o.replica, v);
}

void declare(RequestedReplica& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option(
       "--spatial", o.spatial,
       "Parts into which each sample is cut along its first spatial dimension, one for each of so many neighbouring "
       "ranks: for samples that are too large, or too few, for one rank each. 4x2: 4 parts along the first "
       "dimension of volumes and 2 along the second, for 8 ranks",
       "PARTS")
      .not_stored();
  v.option("--channel-parallel", o.channel_parallel,
           "Parts into which the filters of convolutions and the units of dense layers are cut, one for each of so "
           "many neighbouring ranks: for networks whose parameters are too many for one rank (tensor parallelism)",
           "PARTS")
      .positive()
      .not_stored();
  v.option(
       "--stages", o.stages,
       "Groups of layers, one after the other, each for one rank: each rank has the parameters of its layers alone, "
       "and micro-batches go through the groups (pipeline parallelism)",
       "STAGES")
      .positive()
      .not_stored();
}

std::optional<ProcessGrid::Extents> requested_grid(const RequestedGrid& o, int ranks) {
  const auto replica = o.replica.extents();
  if (o.parallel == "data") return training_extents(ranks, replica);
  if (ranks_of(replica) != 1)
    refuse("--parallel \"{}\" with {}: both say how ranks share samples. Give one of them", o.parallel,
           options_of(replica));
  if (o.is_auto()) return std::nullopt;
  const auto e = ProcessGrid::parse(o.parallel);
  const std::int64_t asked_for = std::int64_t{e.data} * ranks_of(e);
  if (e.ensemble == 1 && e.data != 0 && asked_for != ranks)
    refuse("--parallel \"{}\" is for {}, but there are {}: start as many ranks as the grid has, or change the grid",
           o.parallel, counted(asked_for, "rank"), ranks);
  return training_extents(ranks, e);
}

void require_parts(const Graph& graph, const ProcessGrid& grid) {
  const int parts = grid.extent(ProcessGrid::Axis::space);
  if (parts == 1 || !input_rows(graph, {.grid = &grid}).empty()) return;
  std::vector<std::string> inputs;
  for (const Graph::Node& n : graph.nodes())
    if (n.srcs.empty() && !n.is_state) inputs.push_back(fmt::format("{} {}", n.name, to_string(n.shape.shape)));
  refuse(
      "--spatial {}: the network reads {} for a sample, which cannot be cut into {} parts along a spatial dimension. "
      "Give a smaller --spatial, or leave it out",
      parts, fmt::join(inputs, ", "), parts);
}

std::string describe_memory(const Plan& plan) {
  std::vector<std::string> parts;
  for (const auto& [what, bytes] : plan.memory())
    parts.push_back(fmt::format("{} {:.1f} MiB", what, static_cast<double>(bytes) / (1 << 20)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe_exchanges(const Plan& plan) {
  std::vector<std::string> parts;
  for (const Exchanged& e : plan.exchanged())
    parts.push_back(fmt::format("{} {:.1f} MB ({})", e.what, e.bytes * 1e-6, counted(e.messages, "message")));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe_channel_layers(const Graph& graph, const PlanOptions& options) {
  const int ranks = options.grid ? options.grid->extent(ProcessGrid::Axis::space) : 1;
  const auto possible = channel_layers(graph, ranks);
  if (possible.empty()) return "";
  if (!channel_layers(graph, options).empty()) return fmt::format("by channels: {}\n", fmt::join(possible, ", "));
  return fmt::format(
      "each rank has all parameters (--shard-optimizer, or ranks that survive losses), which takes more memory than {} "
      "by channels\n",
      fmt::join(possible, ", "));
}

std::string table_of(const GridChoice& choice, int ranks, std::int64_t global_batch) {
  std::size_t width = 4;
  for (const GridCandidate& c : choice.candidates) width = std::max(width, c.name().size());
  const auto seconds = [](double s) { return s > 0 ? fmt::format("{:.1f} ms", s * 1e3) : std::string("-"); };
  std::string text =
      fmt::format("process grids for {} and {} a step:\n  {:<{}}  samples  passes     memory   estimated    measured\n",
                  counted(ranks, "rank"), counted(global_batch, "sample"), "grid", width);
  for (const GridCandidate& c : choice.candidates) {
    text += fmt::format("  {:<{}}", c.name(), width);
    text += c.refusal.empty() ? fmt::format("  {:>7}  {:>6} {:>6.1f} MiB {:>11} {:>11}\n", c.batch, c.micro_batches,
                                            c.bytes / (1 << 20), seconds(c.estimated), seconds(c.measured))
                              : fmt::format("  refused: {}\n", c.refusal);
  }
  return text + fmt::format("chosen: {} ({})\n", choice.grid().name(), choice.reason);
}

}  // namespace keelson::app
