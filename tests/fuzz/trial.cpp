#include "tests/fuzz/trial.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "apps/climate/subcommands.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/lm/subcommands.hpp"
#include "apps/search/subcommands.hpp"
#include "tests/fuzz/readers.hpp"

namespace keelson::fuzz {
namespace fs = std::filesystem;
namespace {

int main_of(const Trial& trial) {
  if (is_reader(trial.program)) return run_reader(trial.program, trial.arguments);
  std::vector<std::string> words{trial.program};
  words.insert(words.end(), trial.arguments.begin(), trial.arguments.end());
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  return app::run_app(static_cast<int>(words.size()), argv.data(), {trial.program, ""}, [&](app::CommandLine& line) {
    if (trial.program == "keelson-lm") {
      lm::define_corpus(line);
      lm::define_vocab(line);
      lm::define_train(line);
      lm::define_evaluate(line);
      lm::define_sample(line);
      lm::define_export(line);
    } else if (trial.program == "keelson-climate") {
      climate::define_generate(line);
      climate::define_rechunk(line);
      climate::define_train(line);
      climate::define_evaluate(line);
      climate::define_label(line);
      climate::define_plot(line);
      climate::define_export(line);
    } else if (trial.program == "keelson-search") {
      search::define_run(line);
      search::define_resume(line);
      search::define_status(line);
      search::define_best(line);
      search::define_report(line);
      search::define_replay(line);
      search::define_compare(line);
    } else {
      cosmoflow::define_generate(line);
      cosmoflow::define_rechunk(line);
      cosmoflow::define_train(line);
      cosmoflow::define_evaluate(line);
      cosmoflow::define_export(line);
    }
  });
}

void limit_memory() {
  constexpr rlim_t most = rlim_t{16} << 30;  // what asks for more is told so, rather than killed with its neighbours
  const rlimit memory{most, most}, core{0, 0};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &core);
}

[[noreturn]] void become(const Trial& trial, const fs::path& folder) {
  limit_memory();
  for (const auto& [name, target] : {std::pair{"stdout", STDOUT_FILENO}, {"stderr", STDERR_FILENO}}) {
    const int fd = ::open((folder / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || ::dup2(fd, target) < 0) _exit(99);
  }
  const int code = main_of(trial);
  std::fflush(nullptr);
  _exit(code);
}

/// What a run that ended well must not say.
std::string not_finite_in(const fs::path& folder) {
  for (const char* name : {"out/metrics.jsonl", "stdout"}) {
    const auto text = content_of(folder / name);
    for (const char* number : {"\"loss\":null", "\"loss\": null", "\"train_loss\":null", "\"perplexity\":null", " nan"})
      if (text.find(number) != std::string::npos) return std::string(name) + " has " + number;
  }
  return "";
}

Ending judge(int status, const fs::path& folder) {
  using Kind = Ending::Kind;
  if (WIFSIGNALED(status)) return {Kind::bug, std::string("signal: ") + strsignal(WTERMSIG(status))};
  const int code = WEXITSTATUS(status);
  const auto errors = content_of(folder / "stderr");
  if (code == 0) {
    const auto why = not_finite_in(folder);
    return {why.empty() ? Kind::accepted : Kind::bug, why};
  }
  if (code != 1 && code != 2) return {Kind::bug, "exit code " + std::to_string(code)};
  if (errors.find(": error: ") == std::string::npos) return {Kind::bug, "no message"};
  for (const char* raw : {"internal error", "json.exception", "std::", "filesystem error", "basic_string",
                          "vector::", "terminate called", "bad_alloc", "unknown type"})
    if (errors.find(raw) != std::string::npos) return {Kind::bug, std::string("a raw message: ") + raw};
  return {code == 2 ? Kind::refused : Kind::failed, ""};
}

}  // namespace

Ending run(const Trial& trial, const fs::path& folder, double seconds) {
  using Clock = std::chrono::steady_clock;
  fs::create_directories(folder);
  const pid_t child = ::fork();
  if (child < 0) return {Ending::Kind::bug, std::string("fork: ") + std::strerror(errno)};
  if (child == 0) become(trial, folder);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return {Ending::Kind::bug, "hangs"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return judge(status, folder);
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string to_string(const Trial& trial) {
  std::string text = trial.program;
  for (const auto& a : trial.arguments) text += " '" + a + "'";
  return text;
}

}  // namespace keelson::fuzz
