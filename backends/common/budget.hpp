#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <string>

#include "engine/base/error.hpp"

namespace keelson::backends {

/// The bytes that this process has allocated on a device, and the limit of this number.
struct Budget {
  std::atomic<std::size_t> used = 0;
  std::size_t limit = std::numeric_limits<std::size_t>::max();

  std::size_t left() const { return limit > used ? limit - used : 0; }

  /// Throws because `size` bytes of `label` cannot be allocated. `where` names the device; `advice`: what else
  /// may help.
  [[noreturn]] void out_of_memory(std::size_t size, const std::string& label, const std::string& where,
                                  const std::string& advice = "") const {
    const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    const bool limited = size > left();
    throw OutOfMemory(fmt::format(
        "out of memory: {} needs {:.1f} MiB on {}{}; try a smaller batch or input, or more ranks{}", label, mib(size),
        where, limited ? fmt::format(" beside {:.1f} MiB in use, more than the memory limit", mib(used)) : "", advice));
  }
};

}  // namespace keelson::backends
