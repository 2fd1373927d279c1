#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

/// How many threads a rank runs, and on which cores: decided before the first parallel region.
namespace keelson::comm {

/// The facts that decide the placement. A CPU is one hardware thread with the number that Linux gives it.
struct PlacementFacts {
  std::vector<int> core_of_cpu;  ///< physical core of each CPU of the node; -1: offline
  /// The CPUs each rank of this node may run on, in order of local rank.
  std::vector<std::vector<int>> masks;
  int local_rank = 0;           ///< among the ranks of this node
  std::vector<int> node_cpus;   ///< CPUs of the node that the job could use without the launcher's binding
  double cgroup_cpu_limit = 0;  ///< CPUs that the control group allows for all ranks of the node together; 0: no limit
  int threads_wanted = 0;       ///< requested number; 0: none
  std::string threads_wanted_by;  ///< "KEELSON_THREADS" or "OMP_NUM_THREADS"
  int cpus_per_task = 0;          ///< SLURM_CPUS_PER_TASK; 0: not set
  bool open_mpi = false;          ///< started by Open MPI's mpirun
  bool slurm = false;             ///< inside a SLURM job
  bool beside_others = false;     ///< the launcher started more tasks than this job has ranks: independent runs
  bool bind = true;               ///< KEELSON_BIND=none: threads stay unbound, the launcher's mask unchanged
  bool openmp_binds = false;      ///< OMP_PROC_BIND is set: OpenMP binds threads inside the mask that it saw at start
};

/// The placement of a rank, and advice for the user.
struct Placement {
  int threads = 1;        ///< threads of the rank
  std::vector<int> cpus;  ///< bind this process to these CPUs; empty: do not change its mask
  int cores = 1;          ///< physical cores that the rank runs on
  int node_cores = 1;     ///< cores that the job could use on this node
  int busy_cores = 1;     ///< cores that run threads of the node's ranks; a shared core counts once
  std::string reason;     ///< "its share of 8 cores", "KEELSON_THREADS"
  std::string advice;     ///< a sentence for the user if cores stay idle or are crowded; else empty
};

/// The rules:
/// - Threads: the number in KEELSON_THREADS, else in OMP_NUM_THREADS. Else one thread per physical core of the rank's
///   share, but at most SLURM_CPUS_PER_TASK, at most its part of the control group's quota, and at least one.
/// - Share: ranks whose masks do not overlap keep their masks. Ranks that share a mask divide its cores evenly, in core
///   order, and are bound to their part. With more ranks than cores, each rank has one thread and is not bound, and
///   there is a warning.
/// A single rank on a node that Open MPI has bound to one core takes all cores of the node: by default mpirun binds one
/// or two ranks like this, which is rarely intended. `--bind-to core` cannot be distinguished from this default.
/// KEELSON_THREADS=1 or KEELSON_BIND=none keep the binding.
Placement decide_placement(const PlacementFacts& facts);

/// The facts of this process, exchanged between the ranks of a node. Reads the environment, /sys and /proc. Collective.
/// Throws InputError if a variable has a wrong value.
PlacementFacts placement_facts(Communicator& world);

/// Binds the calling thread, and all threads that it starts later, to placement.cpus. Throws Error if the system
/// refuses.
void bind(const Placement& placement);

/// Memory that the processes of this node may still take.
struct FreeMemory {
  std::int64_t bytes = 0;  ///< of all processes together
  std::string source;      ///< "MemAvailable", "limit of the control group", "SLURM_MEM_PER_NODE"
};

/// The least of the node's free memory (MemAvailable, which counts the page cache), of what the limits of the control
/// group leave, and of SLURM_MEM_PER_NODE. `root`: a prefix of every path, for tests.
FreeMemory free_memory(const std::string& root = "");

/// The processor that a rank computes on.
enum class Computes : std::uint8_t { on_cores, on_gpu };

/// One line on all ranks: "4 ranks on 2 nodes, 8 threads each (32 of 32 cores)", or "8 threads and 1 GPU each", with
/// the advice if there is any. Collective.
std::string describe(const Placement& placement, Communicator& world, Computes computes = Computes::on_cores);

}  // namespace keelson::comm
