#include "comm/placement.hpp"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <tuple>

#include "comm/placement/cpu_set.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm {
namespace {

using Cpus = std::vector<int>;

/// The physical cores of these CPUs, in order.
std::vector<int> cores_of(const Cpus& cpus, const PlacementFacts& facts) {
  std::vector<int> cores;
  for (int cpu : cpus)
    if (const int core = facts.core_of_cpu.at(static_cast<std::size_t>(cpu)); core >= 0) cores.push_back(core);
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

int count(std::size_t n) { return static_cast<int>(n); }

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int core) { return std::find(b.begin(), b.end(), core) != b.end(); });
}

/// The part of a node for one rank.
struct Share {
  Cpus cpus;             ///< bind to these CPUs; empty: do not change the mask
  int cores = 1;         ///< cores for this rank only, at least one
  int sharers = 1;       ///< ranks with the same mask, this one included
  bool crowded = false;  ///< more ranks than cores
  std::string reason;
};

/// The CPUs of the cores [first, last) of the mask.
Cpus cpus_of_cores(const Cpus& mask, const std::vector<int>& cores, std::size_t first, std::size_t last,
                   const PlacementFacts& facts) {
  Cpus cpus;
  for (int cpu : mask) {
    const int core = facts.core_of_cpu.at(static_cast<std::size_t>(cpu));
    const auto at = static_cast<std::size_t>(std::lower_bound(cores.begin(), cores.end(), core) - cores.begin());
    if (core >= 0 && at >= first && at < last) cpus.push_back(cpu);
  }
  return cpus;
}

Share share_of(int local_rank, const PlacementFacts& facts) {
  const Cpus& mask = facts.masks.at(static_cast<std::size_t>(local_rank));
  const auto cores = cores_of(mask, facts);
  std::size_t sharers = 0, before = 0;
  bool equal = true;
  for (std::size_t r = 0; r < facts.masks.size(); ++r) {
    if (!overlap(cores_of(facts.masks[r], facts), cores)) continue;
    equal = equal && facts.masks[r] == mask;
    if (count(r) < local_rank) ++before;
    ++sharers;
  }
  Share share;
  share.sharers = std::max(count(sharers), 1);
  if (sharers <= 1) {
    share.cores = std::max(count(cores.size()), 1);
    share.reason = "the cores it was bound to";
    return share;
  }
  const std::size_t each = cores.size() / sharers;
  share.crowded = each == 0;
  share.cores = std::max(count(each), 1);
  share.reason = fmt::format("its share of {} cores", cores.size());
  // If masks overlap only in part, it is not clear which rank should have which core.
  if (each > 0 && equal) share.cpus = cpus_of_cores(mask, cores, before * each, (before + 1) * each, facts);
  return share;
}

/// Whether a node's only rank is bound to one core, mpirun's default for one or two ranks.
bool bound_by_default(const PlacementFacts& facts) {
  return facts.open_mpi && facts.bind && !facts.openmp_binds && facts.masks.size() == 1 && facts.threads_wanted != 1 &&
         cores_of(facts.masks[0], facts).size() == 1 && cores_of(facts.node_cpus, facts).size() > 1;
}

/// The number of threads of a rank with this share, and the reason.
std::pair<int, std::string> threads_of(const Share& share, const PlacementFacts& facts) {
  if (facts.threads_wanted > 0) return {facts.threads_wanted, facts.threads_wanted_by};
  std::pair<int, std::string> found{share.cores, share.reason};
  const auto limit = [&](int most, const char* by) {
    if (most < found.first) found = {std::max(most, 1), by};
  };
  if (facts.cpus_per_task > 0) limit(facts.cpus_per_task, "SLURM_CPUS_PER_TASK");
  if (facts.cgroup_cpu_limit > 0)
    limit(static_cast<int>(facts.cgroup_cpu_limit / static_cast<double>(facts.masks.size())),
          "the control group's CPU limit");
  return found;
}

/// Cores of the node on which threads of its ranks run.
int busy_cores(const PlacementFacts& facts) {
  Cpus all;
  int sum = 0;
  for (int r = 0; r < count(facts.masks.size()); ++r) {
    const auto share = share_of(r, facts);
    sum += std::min(threads_of(share, facts).first, share.cores);
    const Cpus& mask = facts.masks[static_cast<std::size_t>(r)];
    all.insert(all.end(), mask.begin(), mask.end());
  }
  return std::min(sum, std::max(1, count(cores_of(all, facts).size())));
}

/// Which ranks are bound to the same core, and to which CPUs, while other cores are free. Empty: none.
std::string describe_stacked(const PlacementFacts& facts, int busy, int node_cores) {
  if (busy >= node_cores) return "";
  for (int r = 0; r < count(facts.masks.size()); ++r) {
    if (!share_of(r, facts).crowded) continue;
    const auto cores = cores_of(facts.masks[static_cast<std::size_t>(r)], facts);
    std::vector<int> ranks;
    Cpus cpus;
    for (int other = 0; other < count(facts.masks.size()); ++other) {
      const Cpus& mask = facts.masks[static_cast<std::size_t>(other)];
      if (!overlap(cores_of(mask, facts), cores)) continue;
      ranks.push_back(other);
      cpus.insert(cpus.end(), mask.begin(), mask.end());
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return fmt::format(
        "ranks {} of this node were bound to the same {} (CPU {}) while {} of {} stay idle: bind each rank to cores of "
        "its "
        "own, e.g. {}",
        fmt::join(ranks, ", "), cores.size() == 1 ? "core" : "cores", fmt::join(cpus, ", "), node_cores - busy,
        counted(node_cores, "core"), facts.slurm ? "srun --cpu-bind=cores" : "mpirun --bind-to core");
  }
  return "";
}

std::string advise(const PlacementFacts& facts, const Placement& placement, const Share& share) {
  const int ranks = count(facts.masks.size());
  if (const auto stacked = describe_stacked(facts, placement.busy_cores, placement.node_cores); !stacked.empty())
    return stacked;
  const int hardware_threads =
      count(share.cpus.empty() ? facts.masks.at(static_cast<std::size_t>(facts.local_rank)).size() : share.cpus.size());
  if (share.crowded)
    return fmt::format("{} ranks share {} on this node: start fewer ranks", share.sharers,
                       placement.node_cores == 1 ? "1 core" : fmt::format("{} cores", placement.node_cores));
  if (facts.openmp_binds && share.sharers > 1)
    return "OMP_PROC_BIND binds the threads of all ranks to the same cores: unset it, or let the launcher bind the "
           "ranks";
  if (placement.threads > hardware_threads)
    return fmt::format("{}={} is more than the {} hardware threads that each rank has: lower it",
                       facts.threads_wanted_by, placement.threads, hardware_threads);
  if (facts.cgroup_cpu_limit > 0 &&
      placement.threads * ranks > std::max(ranks, static_cast<int>(facts.cgroup_cpu_limit)))
    return fmt::format("{}={} is more than the control group's limit of {:.3g} CPUs allows: lower it",
                       facts.threads_wanted_by, placement.threads, facts.cgroup_cpu_limit);
  if (facts.threads_wanted > 0 || facts.beside_others) return "";

  const int idle = placement.node_cores - placement.busy_cores;
  const bool limited =
      facts.cgroup_cpu_limit > 0 && (placement.threads + 1) * ranks > static_cast<int>(facts.cgroup_cpu_limit);
  if (idle <= 0 || limited || idle * 4 < placement.node_cores) return "";  // a few idle cores are acceptable
  const int fair = std::max(1, placement.node_cores / ranks);
  const std::string how = facts.open_mpi ? fmt::format(", e.g. mpirun --map-by slot:pe={}, or --bind-to none", fair)
                          : facts.slurm  ? fmt::format(", e.g. srun --cpus-per-task={}", fair)
                                         : "";
  return fmt::format("{} of {} cores stay idle: start more ranks, or give each more cores{}", idle,
                     placement.node_cores, how);
}

}  // namespace

Placement decide_placement(const PlacementFacts& given) {
  PlacementFacts facts = given;
  Placement placement;
  const bool widened = bound_by_default(facts);
  if (widened) facts.masks[0] = facts.node_cpus;

  Share share = share_of(facts.local_rank, facts);
  if (widened) {
    share.cpus = facts.node_cpus;
    share.reason = "all cores, since mpirun bound this only rank to one core, as by default";
  }
  placement.cores = share.cores;
  std::tie(placement.threads, placement.reason) = threads_of(share, facts);
  placement.busy_cores = busy_cores(facts);
  std::vector<int> all = facts.node_cpus;
  for (const Cpus& mask : facts.masks) all.insert(all.end(), mask.begin(), mask.end());
  placement.node_cores = std::max(1, count(cores_of(all, facts).size()));
  placement.advice = advise(facts, placement, share);

  // Threads that do not fit the share would wait for its cores while other cores are free.
  const bool fits = placement.threads <= count(share.cpus.size());
  if (facts.bind && !facts.openmp_binds && fits) placement.cpus = share.cpus;
  return placement;
}

void bind(const Placement& placement) {
  if (placement.cpus.empty()) return;
  detail::CpuSet set(placement.cpus.back() + 1);
  for (int cpu : placement.cpus) set.add(cpu);
  if (sched_setaffinity(0, set.bytes(), set.get()) != 0)
    fail("cannot bind this process to {} CPUs (sched_setaffinity: {}); KEELSON_BIND=none leaves it unbound",
         placement.cpus.size(), std::strerror(errno));
}

std::string describe(const Placement& placement, Communicator& world, Computes computes) {
  const bool first_of_node = world.local_rank() == 0;
  std::int64_t sums[2] = {first_of_node ? placement.busy_cores : 0, first_of_node ? placement.node_cores : 0};
  std::int64_t range[2] = {placement.threads, -placement.threads};
  world.allreduce(sums, 2, Reduction::sum);
  world.allreduce(range, 2, Reduction::max);
  const std::string threads =
      range[0] == -range[1] ? counted(range[0], "thread") : fmt::format("{} to {} threads", -range[1], range[0]);
  std::string text =
      fmt::format("{} on {}, {}{}{} ({} of {})", counted(world.size(), "rank"), counted(world.nodes(), "node"), threads,
                  computes == Computes::on_gpu ? " and 1 GPU" : "", world.size() > 1 ? " each" : "", sums[0],
                  counted(sums[1], "core"));
  const auto advice = world.allgather(placement.advice);
  const auto first = std::find_if(advice.begin(), advice.end(), [](const std::string& a) { return !a.empty(); });
  return first == advice.end() ? text : text + "; " + *first;
}

}  // namespace keelson::comm
