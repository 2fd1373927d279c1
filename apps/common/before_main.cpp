#include "apps/common/before_main.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "engine/base/error.hpp"

namespace keelson::app {
namespace {

/// The value of an environment variable; null: the variable is not set. getenv() cannot be used here, since it works
/// only after libc has started.
const char* value_of(char** environment, const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** e = environment; *e != nullptr; ++e)
    if (std::strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  return nullptr;
}

bool speaks = true;  // whether this process prints the message: true in one process of a job

bool is_first_rank(char** environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = value_of(environment, name); rank != nullptr) return std::strcmp(rank, "0") == 0;
  return true;
}

// Calls only functions that a signal handler may call.
void end_at_once(int) {
  constexpr char text[] = "ended by a signal; exit code 75\n";
  if (speaks && ::write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(static_cast<int>(ExitCode::interrupted));
  _exit(static_cast<int>(ExitCode::interrupted));
}

void end_when_signalled() {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    struct sigaction now{};
    if (sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    now.sa_handler = end_at_once;
    sigaction(number, &now, nullptr);
  }
}

void let_waiting_threads_sleep(char** argv, char** environment) {
  if (value_of(environment, "GOMP_SPINCOUNT") != nullptr || value_of(environment, "OMP_WAIT_POLICY") != nullptr) return;
  if (dlsym(RTLD_DEFAULT, "GOMP_parallel") == nullptr || dlsym(RTLD_DEFAULT, "__kmpc_fork_call") != nullptr) return;
  const char* preloaded = value_of(environment, "LD_PRELOAD");
  if (preloaded != nullptr && std::strstr(preloaded, "vgpreload") != nullptr)
    return;  // Valgrind would lose the program
  static std::array<char, 4096> program;
  static std::array<char*, 8192> variables;
  static char spin_count[] = "GOMP_SPINCOUNT=1000";
  std::size_t n = 0;
  while (environment[n] != nullptr) ++n;
  const auto length = readlink("/proc/self/exe", program.data(), program.size() - 1);
  if (length < 0 || n + 2 > variables.size()) return;
  std::memcpy(variables.data(), environment, n * sizeof(char*));
  variables[n] = spin_count;
  execve(program.data(), argv, variables.data());
}

}  // namespace

void before_main(int, char** argv, char** environment) {
  speaks = is_first_rank(environment);
  end_when_signalled();
  let_waiting_threads_sleep(argv, environment);
}

}  // namespace keelson::app
