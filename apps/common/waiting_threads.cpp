#include "apps/common/waiting_threads.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace keelson::app {

void let_waiting_threads_sleep(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (dlsym(RTLD_DEFAULT, "GOMP_parallel") == nullptr || dlsym(RTLD_DEFAULT, "__kmpc_fork_call") != nullptr) return;
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded != nullptr && std::strstr(preloaded, "vgpreload") != nullptr)
    return;  // Valgrind would lose the program
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", "1000", 0) != 0) return;
  execv(program.c_str(), argv);
}

}  // namespace keelson::app
