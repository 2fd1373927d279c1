#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace keelson::bench {

/// A machine as the simulator of `keelson-bench scale` sees it: ranks in nodes, nodes in groups (the nodes of one leaf
/// switch, or one group of a dragonfly), and a core that joins the groups. Links carry both directions at once.
/// Messages between groups spread over all paths, as adaptive routing does, so a group has one link to the core, with
/// the bandwidth of all its cables. Bandwidths in bytes/s, times in seconds.
struct Machine {
  std::string name;
  std::string title;  ///< one line for tables
  int most_ranks = 0;
  int ranks_per_node = 1, nodes_per_group = 1;

  double rank_bandwidth = 0, rank_latency = 0;    ///< from a rank to its node's other ranks and its network interface
  double node_bandwidth = 0, node_latency = 0;    ///< from a node to its group's switch, all rails together
  double group_bandwidth = 0, group_latency = 0;  ///< from a group to the core

  double message_overhead = 0;  ///< seconds of the processor for each message sent or received
  double sum_bandwidth = 0;     ///< bytes of received f32 that a rank adds up in a second while it computes
  bool spare_core = true;       ///< false: while the rank works for the exchange, its computation stops
  double flops_per_second = 0;  ///< of a rank, in whole training steps
  double imbalance = 0;         ///< standard deviation of a rank's time for one step, relative to that time

  // May be left out in files. The last three are about a published program, for the way to exchange "copied".
  double call_overhead = 0;    ///< least seconds of a call, however few rows it computes
  double gradient_copies = 0;  ///< how often one core copies all gradients beside a sum, at the speed of sums
  double row_copies = 0;       ///< the same for each message with rows, at each of its ends
  double update_arrays = 5;    ///< arrays that its update reads and writes, for 5 in one fused call with momentum

  int ranks_per_group() const { return ranks_per_node * nodes_per_group; }
};

std::vector<std::string> machine_names();

/// A machine by its name, or from a JSON file with all members of Machine. Throws InputError.
Machine make_machine(const std::string& name_or_file);

nlohmann::json json_of(const Machine& machine);
/// Throws InputError, naming `source`, for members that are missing, unknown, or out of range.
Machine machine_of(const nlohmann::json& json, const std::string& source);

}  // namespace keelson::bench
