#include "comm/placement/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "engine/base/parse_number.hpp"

namespace keelson::comm::detail {
namespace {

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

/// 0 if a word is missing, is no number, or is "max".
double ratio(const std::string& quota, const std::string& period) {
  double a = 0, b = 0;
  std::istringstream(quota) >> a;
  std::istringstream(period) >> b;
  return a > 0 && b > 0 ? a / b : 0;
}

double quota_of(const std::string& directory, bool unified) {
  if (unified) {  // "150000 100000" or "max 100000"
    const auto words = words_of(directory + "/cpu.max");
    return words.size() == 2 ? ratio(words[0], words[1]) : 0;
  }
  const auto quota = words_of(directory + "/cpu.cfs_quota_us"), period = words_of(directory + "/cpu.cfs_period_us");
  return quota.size() == 1 && period.size() == 1 ? ratio(quota[0], period[0]) : 0;
}

bool has_word(const std::string& list, const std::string& word) {
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');)
    if (item == word) return true;
  return false;
}

}  // namespace

namespace {

/// Calls `visit` for the folder of this process's group of a controller, and for those of all its parents.
void for_each_group(const std::string& root, const std::string& controller,
                    const std::function<void(const std::string& folder, bool unified)>& visit) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/user.slice/x" or "4:cpu,cpuacct:/docker/y"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !has_word(controllers, controller)) continue;
    std::vector<std::string> mounts{root + "/sys/fs/cgroup"};
    if (unified)
      mounts.push_back(root + "/sys/fs/cgroup/unified");
    else
      mounts = {root + "/sys/fs/cgroup/" + controllers, root + "/sys/fs/cgroup/" + controller};
    // In a container the path may be a path of the host, with the container's group at the mount itself. So all parents
    // are read, up to the mount.
    for (const std::string& mount : mounts)
      for (std::string path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
        visit(mount + (path == "/" ? "" : path), unified);
        if (path.empty() || path.find('/') == std::string::npos) break;
      }
  }
}

/// The number that a file holds alone; no value: no such file, or no number ("max").
std::optional<std::int64_t> number_in(const std::string& path) {
  const auto words = words_of(path);
  return words.size() == 1 ? parse_number<std::int64_t>(words[0]) : std::nullopt;
}

/// Bytes of the page cache that the group is charged for.
std::int64_t cached_bytes(const std::string& folder, bool unified) {
  const auto words = words_of(folder + "/memory.stat");  // names and numbers in turn
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2)
    for (const char* name : {"active_file", "inactive_file"})
      if (words[i] == (unified ? "" : "total_") + std::string(name))
        bytes += parse_number<std::int64_t>(words[i + 1]).value_or(0);
  return bytes;
}

}  // namespace

double cgroup_cpu_limit(const std::string& root) {
  double least = 0;
  for_each_group(root, "cpu", [&](const std::string& folder, bool unified) {
    const double quota = quota_of(folder, unified);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  });
  return least;
}

std::optional<std::int64_t> cgroup_free_memory(const std::string& root) {
  std::optional<std::int64_t> least;
  for_each_group(root, "memory", [&](const std::string& folder, bool unified) {
    const auto limit = number_in(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used = number_in(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit || !used) return;
    const std::int64_t free = std::max<std::int64_t>(*limit - *used + cached_bytes(folder, unified), 0);
    least = std::min(least.value_or(free), free);
  });
  return least;
}

}  // namespace keelson::comm::detail
