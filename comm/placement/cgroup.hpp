#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace keelson::comm::detail {

/// The number of CPUs that the control group of this process may use, e.g. 1.5; 0: no limit. Reads both versions of
/// Linux control groups, the group and all its parents. `root` is a prefix of every path, for tests.
double cgroup_cpu_limit(const std::string& root = "");

/// Bytes of memory that the control group of this process, and each of its parents, may still take. Their page cache
/// counts as free. No value: no limit. `root`: as above.
std::optional<std::int64_t> cgroup_free_memory(const std::string& root = "");

}  // namespace keelson::comm::detail
