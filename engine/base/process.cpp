#include "engine/base/process.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "engine/base/small_file.hpp"

namespace keelson {
namespace {

/// The fields of /proc/PID/stat. Not found: there is no such process, or the process of another user is hidden.
struct Stat {
  std::string name;
  std::int64_t parent = 0, started = 0;
  bool found = false, ended = false;  ///< ended: but its parent has not yet waited for it
};

Stat stat_of(std::int64_t number) {
  const std::string text = read_small_file("/proc/" + std::to_string(number) + "/stat").value_or("");
  const auto name = text.find('('), name_end = text.rfind(')');  // the name may hold spaces and brackets
  if (name == std::string::npos || name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  Stat stat{text.substr(name + 1, name_end - name - 1)};
  std::string state;
  fields >> state >> stat.parent;  // fields 3 and 4
  for (int i = 5; i < 22; ++i) fields >> skipped;
  fields >> stat.started;
  stat.found = true;
  stat.ended = state == "Z" || state == "X";
  return stat;
}

std::string current_numbering() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

std::string current_boot() {
  std::string id = read_small_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

}  // namespace

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown host";
  return name;
}

Process Process::current() {
  return {host_name(), current_boot(), current_numbering(), ::getpid(), stat_of(::getpid()).started};
}

std::int64_t find_ancestor(std::initializer_list<std::string_view> names) {
  for (auto number = stat_of(::getpid()).parent; number > 0;) {
    const Stat stat = stat_of(number);
    if (std::find(names.begin(), names.end(), stat.name) != names.end()) return number;
    number = stat.parent;
  }
  return 0;
}

Life life_of(const Process& process) {
  if (process.boot.empty() || process.host != host_name()) return Life::unknown;
  if (process.boot != current_boot()) return Life::ended;  // the machine has restarted since
  if (process.numbering != current_numbering()) return Life::unknown;
  const Stat stat = stat_of(process.number);
  if (stat.found) return stat.started == process.started && !stat.ended ? Life::runs : Life::ended;
  return ::kill(static_cast<pid_t>(process.number), 0) != 0 && errno == ESRCH ? Life::ended : Life::unknown;
}

}  // namespace keelson
