#include "apps/common/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "engine/base/processor.hpp"

namespace keelson::app {
namespace {

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_machine() {
  std::vector<std::pair<std::string, std::string>> out;
  utsname u{};
  if (uname(&u) == 0) {
    out.emplace_back("Host", u.nodename);
    out.emplace_back("System", fmt::format("{} {} {}", u.sysname, u.release, u.machine));
  }
  out.emplace_back("Processor", processor_model());
  const auto sockets = system_values("/proc/cpuinfo", "physical id"), cores = system_values("/proc/cpuinfo", "core id");
  std::set<std::pair<std::string, std::string>> distinct;
  for (std::size_t i = 0; i < std::min(sockets.size(), cores.size()); ++i) distinct.insert({sockets[i], cores[i]});
  const auto online = sysconf(_SC_NPROCESSORS_ONLN);
  if (!distinct.empty())
    out.emplace_back("Cores of the node",
                     fmt::format("{} cores, {} hardware threads, {} sockets", distinct.size(), online,
                                 std::set<std::string>(sockets.begin(), sockets.end()).size()));
  else
    out.emplace_back("Cores of the node", fmt::format("{} hardware threads", online));
  if (const int n = usable_cpus()) out.emplace_back("This rank may use", fmt::format("{} hardware threads", n));
  const auto memory = system_values("/proc/meminfo", "MemTotal");
  if (!memory.empty()) out.emplace_back("Memory", fmt::format("{:.1f} GB", std::stod(memory[0]) * 1024 / 1e9));
  return out;
}

double peak_resident_bytes() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  return static_cast<double>(r.ru_maxrss) * 1024;
}

}  // namespace keelson::app
