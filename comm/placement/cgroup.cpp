#include "comm/placement/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

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

double cgroup_cpu_limit(const std::string& root) {
  double least = 0;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/user.slice/x" or "4:cpu,cpuacct:/docker/y"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !has_word(controllers, "cpu")) continue;
    std::vector<std::string> mounts{root + "/sys/fs/cgroup"};
    if (unified)
      mounts.push_back(root + "/sys/fs/cgroup/unified");
    else
      mounts = {root + "/sys/fs/cgroup/" + controllers, root + "/sys/fs/cgroup/cpu"};
    // In a container the path may be a path of the host, with the container's group at the mount itself. So all parents
    // are read, up to the mount.
    for (const std::string& mount : mounts)
      for (std::string path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
        const double quota = quota_of(mount + (path == "/" ? "" : path), unified);
        if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
        if (path.empty() || path.find('/') == std::string::npos) break;
      }
  }
  return least;
}

}  // namespace keelson::comm::detail
