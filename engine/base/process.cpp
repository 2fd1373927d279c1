#include "engine/base/process.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

namespace keelson {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Field 22 of /proc/PID/stat; 0: there is no such process. The name in field 2 may hold spaces and brackets.
std::int64_t start_of(std::int64_t number) {
  const std::string text = content_of("/proc/" + std::to_string(number) + "/stat");
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 22; ++i) fields >> skipped;
  std::int64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

std::string current_numbering() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

std::string current_boot() {
  std::string id = content_of("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

}  // namespace

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown host";
  return name;
}

Process Process::current() { return {host_name(), current_boot(), current_numbering(), ::getpid(), start_of(::getpid())}; }

Life life_of(const Process& process) {
  if (process.boot.empty() || process.host != host_name()) return Life::unknown;
  if (process.boot != current_boot()) return Life::ended;  // the machine has started anew since
  if (process.numbering != current_numbering()) return Life::unknown;
  return start_of(process.number) == process.started ? Life::runs : Life::ended;
}

}  // namespace keelson
