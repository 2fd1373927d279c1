#include "apps/common/progress.hpp"

#include <cstdio>

#include "apps/common/console.hpp"
#include "engine/base/counted.hpp"

namespace keelson::app {

void Progress::show(std::int64_t done, std::int64_t total, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  const bool terminal = is_terminal(stdout);
  if (done != total && now - last_ <= (terminal ? std::chrono::seconds(1) : std::chrono::seconds(15))) return;
  last_ = now;
  const std::string part = ranks_ > 1 ? fmt::format(" of rank 0 (of {})", ranks_) : "";
  fmt::print("{}{} of {}{}{}{}", terminal ? "\r" : "", done, counted(total, what_), part, note,
             terminal && done < total ? "" : "\n");
  std::fflush(stdout);
}

}  // namespace keelson::app
