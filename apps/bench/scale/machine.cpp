#include "apps/bench/scale/machine.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

constexpr double us = 1e-6, GB = 1e9, TFLOPS = 1e12;

/// Summit of Oak Ridge: 6 V100 in a node, two EDR InfiniBand rails, a non-blocking fat tree.
/// - 4608 nodes, 6 GPUs each; NVLink with 50 GB/s each way between a GPU and a neighbour (two bricks of 25 GB/s); two
///   rails of 12.5 GB/s, of which MPI reaches 11.5; 18 nodes on a leaf switch: Vazhkudai et al., SC 2018, "The design,
///   deployment, and evaluation of the CORAL pre-exascale systems".
/// - 11.9 TFLOP/s per GPU in f32 training: 325.8 PFLOP/s on 27,360 GPUs, Kurth et al., SC 2018, arXiv:1810.01993.
/// - Assumed: 1.5 us from node to node, 5 us for a message within a node and 4 us of overhead per message (starting
///   work on a GPU); 200 GB/s of sums (three streams of a 900 GB/s memory, shared with the step); 1 % imbalance.
Machine summit() {
  return {.name = "summit",
          .title = "like Summit: 6 V100 a node, two EDR rails, non-blocking fat tree",
          .most_ranks = 27648,
          .ranks_per_node = 6,
          .nodes_per_group = 18,
          .rank_bandwidth = 50 * GB,
          .rank_latency = 2.5 * us,
          .node_bandwidth = 23 * GB,
          .node_latency = 0.5 * us,
          .group_bandwidth = 18 * 23 * GB,
          .group_latency = 0.25 * us,
          .message_overhead = 4 * us,
          .sum_bandwidth = 200 * GB,
          .spare_core = true,
          .flops_per_second = 11.9 * TFLOPS,
          .imbalance = 0.01};
}

/// The part of NERSC's Cori with Xeon Phi nodes: an Aries dragonfly.
/// - 9688 nodes; about 8 GB/s of MPI bandwidth and 0.25 to 3.7 us of MPI latency: NERSC, "Cori configuration"; 4 nodes
/// on
///   a router, 96 routers in a group: Faanes et al., SC 2012, "Cray Cascade".
/// - 45 TB/s of bisection bandwidth for 12,076 nodes in 32 groups (NERSC): 22.5 TB/s each way through half of the
///   groups, 1.4 TB/s for each. A group has links with twice that bandwidth to all others, but adaptive routing takes
///   two hops through the core if the direct link is busy. So all traffic can use 1.4 TB/s.
/// - 0.535 TFLOP/s per node in training: Mathuriya et al., SC 2018, arXiv:1808.04728.
/// - Assumed: 3.5 GB/s of sums (one slow core); 1 us of overhead per message; 1 % imbalance.
Machine cori() {
  return {.name = "cori",
          .title = "like Cori: one Xeon Phi a node, Aries dragonfly",
          .most_ranks = 9688,
          .ranks_per_node = 1,
          .nodes_per_group = 384,
          .rank_bandwidth = 90 * GB,
          .rank_latency = 0.1 * us,
          .node_bandwidth = 8 * GB,
          .node_latency = 0.4 * us,
          .group_bandwidth = 1400 * GB,
          .group_latency = 0.35 * us,
          .message_overhead = 1 * us,
          .sum_bandwidth = 3.5 * GB,
          .spare_core = true,
          .flops_per_second = 0.535 * TFLOPS,
          .imbalance = 0.01};
}

/// Fugaku, as the CosmoFlow runs of MLPerf HPC v0.7 used it: TensorFlow with Mesh TensorFlow, one process a node.
/// - 158,976 nodes of one A64FX: 48 cores in 4 groups, of which the runs used 40 threads.
/// - TofuD: 0.49 us for a Put of 8 bytes, links of 6.8 GB/s with an efficiency of 93 %, 38.1 GB/s of injection (Ajima
/// et
///   al., IEEE Cluster 2018). The schedules here send one message at a time, which takes one link. The torus gets no
///   limit above the nodes: which nodes the jobs had is not published.
/// - 0.22 TFLOP/s in training: what is left of 249 ms a step at 512 nodes without the sums (docs/benchmarking.md).
/// - Copies, read in mlcommons/hpc_results_v0.7, Fujitsu's mesh_tensorflow/ops.py: allreduce_pyfunc() copies each
///   gradient out of TensorFlow, appends one after the other to a growing array, sums, and copies the result back. For
///   the 16 arrays of this network that is 1 + 6.65 + 1 copies of all. Rows are cut out, copied and pickled, and the
///   receiver unpickles and copies them. The update (utils/mesh_momentum_weight_decay.py) is one TensorFlow operation
///   for each product, sum and assignment: 14 arrays read and written, where one fused call has 5; the weight decay of
///   0 is not counted.
/// - Assumed: 5 GB/s of sums and copies (one core), 1 us of overhead per message, 5 us for a call on 40 threads, 1 %
///   imbalance.
Machine fugaku() {
  return {.name = "fugaku",
          .title = "like Fugaku: one A64FX a node, TofuD",
          .most_ranks = 158976,
          .ranks_per_node = 1,
          .nodes_per_group = 384,
          .rank_bandwidth = 40 * GB,
          .rank_latency = 0.1 * us,
          .node_bandwidth = 6.3 * GB,
          .node_latency = 0.15 * us,
          .group_bandwidth = 384 * 6.3 * GB,
          .group_latency = 0.1 * us,
          .message_overhead = 1 * us,
          .sum_bandwidth = 5 * GB,
          .spare_core = true,
          .flops_per_second = 0.22 * TFLOPS,
          .imbalance = 0.01,
          .call_overhead = 5 * us,
          .gradient_copies = 8.65,
          .row_copies = 3,
          .update_arrays = 14};
}

/// No machine in particular: two-socket nodes on 100 Gb/s, leaf switches with 24 nodes and 12 cables up. All assumed,
/// but for 12 GB/s and 1 us, which MPI reaches on such links.
Machine cluster() {
  return {.name = "cluster",
          .title = "100 Gb/s cluster: two processors a node, fat tree with half the bandwidth above the leaves",
          .most_ranks = 16384,
          .ranks_per_node = 1,
          .nodes_per_group = 24,
          .rank_bandwidth = 100 * GB,
          .rank_latency = 0.1 * us,
          .node_bandwidth = 12 * GB,
          .node_latency = 0.3 * us,
          .group_bandwidth = 12 * 12 * GB,
          .group_latency = 0.3 * us,
          .message_overhead = 0.3 * us,
          .sum_bandwidth = 8 * GB,
          .spare_core = true,
          .flops_per_second = 2.5 * TFLOPS,
          .imbalance = 0.01};
}

/// Calls `f` with the name and the value of each member of a description.
template <class M, class F>
void each_member(M& m, F f) {
  f("name", m.name);
  f("title", m.title);
  f("most_ranks", m.most_ranks);
  f("ranks_per_node", m.ranks_per_node);
  f("nodes_per_group", m.nodes_per_group);
  f("rank_bandwidth", m.rank_bandwidth);
  f("rank_latency", m.rank_latency);
  f("node_bandwidth", m.node_bandwidth);
  f("node_latency", m.node_latency);
  f("group_bandwidth", m.group_bandwidth);
  f("group_latency", m.group_latency);
  f("message_overhead", m.message_overhead);
  f("sum_bandwidth", m.sum_bandwidth);
  f("spare_core", m.spare_core);
  f("flops_per_second", m.flops_per_second);
  f("imbalance", m.imbalance);
  f("call_overhead", m.call_overhead);
  f("gradient_copies", m.gradient_copies);
  f("row_copies", m.row_copies);
  f("update_arrays", m.update_arrays);
}

/// Whether a file may leave this member out.
bool is_optional(const std::string& name) {
  return name == "call_overhead" || name == "update_arrays" || name.ends_with("_copies");
}

/// nullptr if the value is allowed, else which values are allowed.
const char* objection(const std::string&, const std::string&) { return nullptr; }
const char* objection(const std::string&, bool) { return nullptr; }
const char* objection(const std::string&, int value) { return value > 0 ? nullptr : "a whole number above 0"; }
const char* objection(const std::string& name, double value) {
  const bool may_be_zero =
      name.ends_with("latency") || name == "message_overhead" || name == "imbalance" || is_optional(name);
  if (may_be_zero) return std::isfinite(value) && value >= 0 ? nullptr : "a number of 0 or more";
  return std::isfinite(value) && value > 0 ? nullptr : "a number above 0";
}

}  // namespace

std::vector<std::string> machine_names() { return {"cori", "summit", "fugaku", "cluster"}; }

nlohmann::json json_of(const Machine& machine) {
  nlohmann::json j;
  each_member(machine, [&](const char* name, const auto& value) { j[name] = value; });
  return j;
}

Machine machine_of(const nlohmann::json& json, const std::string& source) {
  if (!json.is_object()) refuse("{}: a machine is a JSON object", source);
  Machine machine;
  std::vector<std::string> known;
  each_member(machine, [&](const char* name, auto& value) {
    known.emplace_back(name);
    if (!json.contains(name) && is_optional(name)) return;
    if (!json.contains(name)) refuse("{}: the machine has no \"{}\"", source, name);
    const auto& found = json.at(name);
    const char* expected = "of another type";
    try {
      value = found.get<std::decay_t<decltype(value)>>();
      expected = objection(name, value);
    } catch (const nlohmann::json::exception&) {
    }
    if (expected) refuse("{}: \"{}\" is {}, expected {}", source, name, found.dump(), expected);
  });
  for (const auto& [name, value] : json.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse("{}: a machine has no \"{}\", only {}", source, name, fmt::join(known, ", "));
  return machine;
}

Machine make_machine(const std::string& name_or_file) {
  if (name_or_file == "summit") return summit();
  if (name_or_file == "cori") return cori();
  if (name_or_file == "fugaku") return fugaku();
  if (name_or_file == "cluster") return cluster();
  std::ifstream in(name_or_file);
  if (!in) refuse("--machine {}: no such file, and not one of {}", name_or_file, fmt::join(machine_names(), ", "));
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) refuse("--machine {}: not a JSON file", name_or_file);
  return machine_of(json, name_or_file);
}

}  // namespace keelson::bench
