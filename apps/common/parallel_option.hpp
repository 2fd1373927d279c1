#pragma once

#include <optional>
#include <string>

#include "engine/base/process_grid.hpp"
#include "engine/graph/graph.hpp"

namespace keelson {
struct GridChoice;
class Plan;
struct PlanOptions;
}  // namespace keelson

namespace keelson::app {

class Subcommand;

/// The user's options for the ranks of a replica.
struct RequestedReplica {
  std::string spatial = "1";  ///< parts of each sample: "4", or "4x2" along two dimensions
  int channel_parallel = 1;   ///< parts of the channels of each layer
  int stages = 1;             ///< groups of layers, one after the other
  /// Extents along space, channel and stage. Throws InputError for a text that is no number of parts.
  ProcessGrid::Extents extents() const;
};

/// The user's options for the process grid.
struct RequestedGrid {
  std::string parallel = "data";  ///< "data", "auto", or a grid in the words of ProcessGrid::describe()
  RequestedReplica replica;
  bool is_auto() const { return parallel == "auto"; }  ///< the grid is chosen by measuring (choose_grid())
};

/// Declares --parallel, --spatial, --channel-parallel and --stages on a subcommand.
void declare(RequestedGrid& o, Subcommand& subcommand);
/// Declares --spatial, --channel-parallel and --stages.
void declare(RequestedReplica& o, Subcommand& subcommand);

/// The process grid that the user asks for; no value for --parallel auto. Throws InputError where the options
/// contradict each other, or do not fit the number of ranks.
std::optional<ProcessGrid::Extents> requested_grid(const RequestedGrid& o, int ranks);

/// Throws InputError for more than one rank along the axis space where none of the network's inputs can be cut into as
/// many parts, or where a layer cannot compute parts.
void require_parts(const Graph& graph, const ProcessGrid& grid);

/// Memory of a rank by purpose: "parameters 34.0 MiB, gradients 34.0 MiB, ...".
std::string describe_memory(const Plan& plan);
/// What a rank exchanges in a step, by purpose: "gradients 35.6 MB (1 message), rows of samples 4.2 MB (16 messages)";
/// "nothing" for one rank.
std::string describe_exchanges(const Plan& plan);

/// A line about the layers that ranks along space compute by channels, or could if they did not keep whole parameters:
/// "by channels: conv5, dense1\n". Empty if there are none.
std::string describe_channel_layers(const Graph& graph, const PlanOptions& options);

/// The grids that were looked at, one line each, and which one was chosen:
///
///   process grids for 4 ranks and 8 samples a step:
///     grid    samples  passes     memory   estimated    measured
///     data 4        2       1  108.4 MiB    512.0 ms    508.3 ms
std::string table_of(const GridChoice& choice, int ranks, std::int64_t global_batch);

}  // namespace keelson::app
