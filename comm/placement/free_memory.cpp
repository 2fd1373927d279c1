#include <limits>

#include "comm/placement.hpp"
#include "comm/placement/cgroup.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/processor.hpp"

namespace keelson::comm {

FreeMemory free_memory(const std::string& root) {
  constexpr std::int64_t kibi = 1 << 10, mebi = 1 << 20;
  FreeMemory least{std::numeric_limits<std::int64_t>::max(), ""};
  const auto consider = [&](std::int64_t bytes, const char* source) {
    if (bytes < least.bytes) least = {bytes, source};
  };
  for (const std::string& value : system_values(root + "/proc/meminfo", "MemAvailable"))  // "16318480 kB"
    if (const auto n = parse_number<std::int64_t>(value.substr(0, value.find(' '))))
      consider(*n * kibi, "MemAvailable");
  if (const auto free = detail::cgroup_free_memory(root)) consider(*free, "limit of the control group");
  const auto slurm = parse_number<std::int64_t>(environment("SLURM_MEM_PER_NODE"));  // 0: all memory of the node
  if (slurm && *slurm > 0) consider(*slurm * mebi, "SLURM_MEM_PER_NODE");
  return least;
}

}  // namespace keelson::comm
