#include "apps/common/outcomes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "engine/base/printable.hpp"

namespace keelson::app {
namespace {

/// Resident and total memory in GB; 0 if Linux does not tell.
std::pair<double, double> memory_gb() {
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  double size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return {resident * page / 1e9, static_cast<double>(sysconf(_SC_PHYS_PAGES)) * page / 1e9};
}

struct Group {
  std::string message;
  int first = 0;
  std::string host;
  int ranks = 0;
};

}  // namespace

Summary describe_outcomes(const std::string& program, const std::vector<RankOutcome>& outcomes, int size) {
  Summary summary;
  std::vector<Group> groups;
  for (const auto& [rank, host, outcome] : outcomes) {
    if (outcome.message.empty()) {
      if (groups.empty()) summary.exit_code = std::max(summary.exit_code, outcome.exit_code);
      continue;
    }
    if (groups.empty()) summary.exit_code = outcome.exit_code;
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&message = outcome.message](const Group& g) { return g.message == message; });
    if (same != groups.end())
      ++same->ranks;
    else
      groups.push_back({outcome.message, rank, host, 1});
  }
  if (groups.size() == 1 && groups[0].ranks == size) {
    summary.text = fmt::format("{}: error: {}\n", program, printable(groups[0].message));
    return summary;
  }
  constexpr std::size_t most = 5;
  for (std::size_t i = 0; i < std::min(groups.size(), most); ++i) {
    const Group& group = groups[i];
    const std::string others = group.ranks > 1 ? fmt::format(" and {} more", group.ranks - 1) : "";
    summary.text += fmt::format("{}: error: rank {} ({}){}: {}\n", program, group.first, group.host, others,
                                printable(group.message));
  }
  if (groups.size() > most)
    summary.text += fmt::format("{}: {} more different errors\n", program, groups.size() - most);
  return summary;
}

std::string out_of_memory() {
  const auto [resident, total] = memory_gb();
  return fmt::format(
      "out of memory: this process holds {:.1f} GB of the node's {:.1f} GB and was refused more; use a smaller batch "
      "or "
      "input, fewer ranks per node, or more nodes",
      resident, total);
}

}  // namespace keelson::app
