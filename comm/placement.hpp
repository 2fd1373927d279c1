#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

/// How many threads a rank runs, and on which cores: decided before the first parallel region.
namespace keelson::comm {

/// What the decision depends on. A CPU is one hardware thread, numbered as Linux does.
struct PlacementFacts {
  std::vector<int> core_of_cpu;  ///< physical core of each CPU of the node; -1: offline
  /// The CPUs each rank of this node may run on, in order of local rank.
  std::vector<std::vector<int>> masks;
  int local_rank = 0;             ///< among the ranks of this node
  std::vector<int> node_cpus;     ///< that this job could use on this node if no launcher had bound it
  double cgroup_cpu_limit = 0;    ///< CPUs that the control group grants to all ranks of the node together; 0: no limit
  int threads_wanted = 0;         ///< explicit wish; 0: none
  std::string threads_wanted_by;  ///< "KEELSON_THREADS" or "OMP_NUM_THREADS"
  int cpus_per_task = 0;          ///< SLURM_CPUS_PER_TASK; 0: not set
  bool open_mpi = false;          ///< started by Open MPI's mpirun
  bool slurm = false;             ///< inside a SLURM job
  bool beside_others = false;     ///< the launcher started more tasks than this job has ranks: independent runs
  bool bind = true;               ///< KEELSON_BIND=none: threads stay unbound, the launcher's mask untouched
  bool openmp_binds = false;      ///< OMP_PROC_BIND is set: OpenMP binds threads inside the mask that it saw at start
};

/// What to do, and what to tell the user.
struct Placement {
  int threads = 1;        ///< that the rank runs
  std::vector<int> cpus;  ///< bind this process to these; empty: leave its mask alone
  int cores = 1;          ///< physical cores it then runs on
  int node_cores = 1;     ///< that the job could use on this node
  int busy_cores = 1;     ///< of them, those that the threads of the node's ranks run on; a shared core counts once
  std::string reason;     ///< "its share of 8 cores", "KEELSON_THREADS"
  std::string advice;     ///< a sentence for the user if cores stay idle or are crowded; else empty
};

/// The rules.
/// - Threads: an explicit wish (KEELSON_THREADS, then OMP_NUM_THREADS) counts; else one thread per physical core of the
///   rank's share, at most SLURM_CPUS_PER_TASK and its part of the control group's quota, at least one.
/// - Share: ranks with masks of their own (disjoint) keep them. Ranks that share a mask divide its cores evenly, in
/// core
///   order, and are bound to their part. More ranks than cores: one thread each, unbound, with a warning.
/// - A single rank on a node that Open MPI bound to one core takes all cores of the node: that binding is mpirun's
///   default for one or two ranks and hardly ever meant. `--bind-to core` looks the same from here; KEELSON_THREADS=1
///   or KEELSON_BIND=none keep it.
Placement decide_placement(const PlacementFacts& facts);

/// The facts of this process, exchanged between the ranks of a node. Reads the environment, /sys and /proc. Collective.
/// Throws InputError if a variable does not hold what it should.
PlacementFacts placement_facts(Communicator& world);

/// Binds the calling thread, and with it all threads it starts later, to placement.cpus. Throws Error if the system
/// refuses.
void bind(const Placement& placement);

/// What a rank computes on.
enum class Computes : std::uint8_t { on_cores, on_gpu };

/// One line on all ranks: "4 ranks on 2 nodes, 8 threads each (32 of 32 cores)", or "8 threads and 1 GPU each", with
/// the advice if there is any. Collective.
std::string describe(const Placement& placement, Communicator& world, Computes computes = Computes::on_cores);

}  // namespace keelson::comm
