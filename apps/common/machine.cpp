#include "apps/common/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace keelson::app {
namespace {

/// The values of /proc/cpuinfo or /proc/meminfo under `key`, one per line that has it.
std::vector<std::string> values(const char* file, const std::string& key) {
  std::vector<std::string> found;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const auto start = line.find_first_not_of(" \t", colon + 1);
    found.push_back(start == std::string::npos ? "" : line.substr(start));
  }
  return found;
}

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
  const auto models = values("/proc/cpuinfo", "model name");
  if (!models.empty()) out.emplace_back("Processor", models[0]);
  const auto sockets = values("/proc/cpuinfo", "physical id"), cores = values("/proc/cpuinfo", "core id");
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
  const auto memory = values("/proc/meminfo", "MemTotal");
  if (!memory.empty()) out.emplace_back("Memory", fmt::format("{:.1f} GB", std::stod(memory[0]) * 1024 / 1e9));
  return out;
}

double peak_resident_bytes() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  return static_cast<double>(r.ru_maxrss) * 1024;
}

}  // namespace keelson::app
