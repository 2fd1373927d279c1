#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <utility>

#include "comm/placement.hpp"
#include "comm/placement/cgroup.hpp"
#include "comm/placement/cpu_set.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/small_file.hpp"

namespace keelson::comm {
namespace {

/// A positive integer from the environment; 0 if the variable is not set. OMP_NUM_THREADS may be a list: the first
/// number is used.
int number_from(const char* name) {
  const std::string text = environment(name);
  if (text.empty()) return 0;
  const auto value = parse_number<int>(text.substr(0, text.find(',')));
  if (!value || *value < 1 || *value > 65536)
    refuse("the environment variable {} is '{}'; a number of threads is expected, from 1 to 65536", name, text);
  return *value;
}

int first_number(const std::string& text, int otherwise) {
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// All CPU numbers of this machine are below this limit. There may be gaps: "0-127" are the possible numbers.
int cpu_limit() {
  const std::string possible = read_small_file("/sys/devices/system/cpu/possible").value_or("");
  const auto dash = possible.rfind('-');
  const int last = dash == std::string::npos ? 0 : first_number(possible.substr(dash + 1), 0);
  return std::max(static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)), last + 1);
}

/// Physical cores, numbered in the order of package and first CPU. If /sys has no information, each CPU is a core.
std::vector<int> cores_of_cpus(int cpus) {
  std::map<std::pair<int, int>, std::vector<int>> cores;  // (package, first CPU) -> CPUs
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    const int package = first_number(read_small_file(topology + "physical_package_id").value_or(""), 0);
    const int first = first_number(read_small_file(topology + "thread_siblings_list").value_or(""), cpu);
    cores[{package, first}].push_back(cpu);
  }
  std::vector<int> core_of(static_cast<std::size_t>(cpus), -1);
  int number = 0;
  for (const auto& [key, members] : cores) {
    for (int cpu : members) core_of[static_cast<std::size_t>(cpu)] = number;
    ++number;
  }
  return core_of;
}

std::vector<int> mask_of_process(int cpus) {
  detail::CpuSet set(cpus);
  if (sched_getaffinity(0, set.bytes(), set.get()) == 0) return set.list();
  std::vector<int> all(static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return all;
}

/// The CPUs that the kernel allows when this process requests all CPUs. Restores the mask.
std::vector<int> widest_mask(int cpus, const std::vector<int>& mask) {
  // SLURM may share a node between jobs without restricting them. Then only the CPUs of the mask are certain.
  const int granted = number_from("SLURM_CPUS_ON_NODE");
  detail::CpuSet all(cpus), mine(cpus);
  for (int cpu = 0; cpu < cpus; ++cpu) all.add(cpu);
  for (int cpu : mask) mine.add(cpu);
  if (sched_setaffinity(0, all.bytes(), all.get()) != 0) return mask;
  auto widest = mask_of_process(cpus);
  sched_setaffinity(0, mine.bytes(), mine.get());
  return granted > 0 && granted < static_cast<int>(widest.size()) ? mask : widest;
}

std::string to_text(const std::vector<int>& cpus) { return fmt::format("{}", fmt::join(cpus, " ")); }

std::vector<int> from_text(const std::string& text) {
  std::istringstream in(text);
  std::vector<int> cpus;
  for (int cpu = 0; in >> cpu;) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

PlacementFacts placement_facts(Communicator& world) {
  PlacementFacts facts;
  const int cpus = cpu_limit();
  const auto mask = mask_of_process(cpus);
  facts.core_of_cpu = cores_of_cpus(cpus);
  facts.node_cpus = widest_mask(cpus, mask);
  facts.local_rank = world.local_rank();
  for (const std::string& told : world.allgather(fmt::format("{}:{}", world.node(), to_text(mask)))) {
    const auto colon = told.find(':');
    if (first_number(told, -1) == world.node()) facts.masks.push_back(from_text(told.substr(colon + 1)));
  }
  facts.cgroup_cpu_limit = detail::cgroup_cpu_limit();
  for (const char* name : {"KEELSON_THREADS", "OMP_NUM_THREADS"})
    if (const int threads = number_from(name); threads > 0 && facts.threads_wanted == 0) {
      facts.threads_wanted = threads;
      facts.threads_wanted_by = name;
    }
  facts.cpus_per_task = number_from("SLURM_CPUS_PER_TASK");
  facts.open_mpi = !environment("OMPI_COMM_WORLD_SIZE").empty();
  facts.slurm = !environment("SLURM_JOB_ID").empty();
  // The number of tasks of SLURM or Open MPI, even if the tasks do not communicate (KEELSON_MPI=off).
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"})
    if (parse_number<int>(environment(name)).value_or(1) > world.size()) facts.beside_others = true;
  const std::string binding = environment("KEELSON_BIND");
  if (binding != "" && binding != "auto" && binding != "none")
    refuse("the environment variable KEELSON_BIND is '{}'; 'auto' or 'none' is expected", binding);
  facts.bind = binding != "none";
  const std::string openmp = environment("OMP_PROC_BIND");
  facts.openmp_binds = openmp != "" && openmp != "false" && openmp != "FALSE";
  return facts;
}

}  // namespace keelson::comm
