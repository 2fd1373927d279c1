#pragma once

#include <string>

namespace keelson::comm::detail {

/// The number of CPUs that the control group of this process may use, e.g. 1.5; 0: no limit. Reads both versions of
/// Linux control groups, the group and all its parents. `root` is a prefix of every path, for tests.
double cgroup_cpu_limit(const std::string& root = "");

}  // namespace keelson::comm::detail
