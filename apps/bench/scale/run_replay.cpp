#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/bench/scale/study.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

namespace fs = std::filesystem;

/// A file that the destructor removes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::string name = (fs::temp_directory_path() / "keelson-scale-XXXXXX").string();
    const int file = ::mkstemp(name.data());
    if (file < 0) fail("cannot create a file in {}", fs::temp_directory_path().string());
    ::close(file);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

fs::path replay_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path() / "keelson-scale-replay";
  if (error || ::access(program.c_str(), X_OK) != 0)
    refuse(
        "the simulator {} is missing: install SimGrid (Debian: libsimgrid-dev) and build with "
        "-DKEELSON_WITH_SIMGRID=ON",
        program.string());
  return program;
}

ReplayResult run_replay(const fs::path& program, const ReplayJob& job) {
  const TemporaryFile input(json_of(job).dump());
  const auto command = fmt::format("{} < {} 2>&1", quoted(program.string()), quoted(input.path()));
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) fail("cannot start {}", program.string());
  std::string text;
  char buffer[4096];
  for (std::size_t n = 1; n > 0;) {
    n = std::fread(buffer, 1, sizeof buffer, pipe);
    text.append(buffer, n);
  }
  const int status = ::pclose(pipe);
  const auto last = text.find_last_not_of('\n');
  const auto line = text.substr(0, last + 1).rfind('\n');
  const auto json = nlohmann::json::parse(text.substr(line == std::string::npos ? 0 : line + 1), nullptr, false);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || json.is_discarded())
    fail("the simulation of {} ranks failed ({}):\n{}", job.ranks,
         WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status)),
         text);
  return replay_result_of(json);
}

}  // namespace keelson::bench
