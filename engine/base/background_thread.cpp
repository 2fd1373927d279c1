#include "engine/base/background_thread.hpp"

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <pthread.h>
#include <signal.h>

#include "engine/base/trace.hpp"

namespace keelson {
namespace {

void step_back([[maybe_unused]] const char* name, [[maybe_unused]] const std::vector<int>& cpus) {
#ifdef __linux__
  pthread_setname_np(pthread_self(), name);
  // On Linux a thread has its own nice value. This thread may wait for a core, but a waiting compute thread delays the
  // whole step on all ranks. Errors are ignored: the priority or the CPUs then stay as they are.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), getpriority(PRIO_PROCESS, 0) + 5);
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
#endif
}

}  // namespace

std::thread start_background_thread(const char* name, std::function<void()> work, const std::vector<int>& cpus) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask
  try {
    std::thread thread([name, work = std::move(work), cpus] {
      step_back(name, cpus);
      name_thread_in_traces(name);
      work();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace keelson
