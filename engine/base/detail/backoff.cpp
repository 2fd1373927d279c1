#include "engine/base/detail/backoff.hpp"

#include <sched.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <thread>

namespace keelson {
namespace {

/// Linux wakes sleepers up to 50 us late unless they ask for better.
void sleep_precisely() {
#ifdef __linux__
  constexpr unsigned long nanoseconds = 1000;
  prctl(PR_SET_TIMERSLACK, nanoseconds);
#endif
}

}  // namespace

double Backoff::operator()() {
  constexpr int eager = 200;  // tests before others may have the core, and before the clock is read
  if (tests_ < eager) {
    if (++tests_ == eager) since_ = std::chrono::steady_clock::now();
    return 0;
  }
  // Who yields over and over still has its share of the core, so a rank that waits would take the core from the rank
  // that it waits for. The longer the wait, the less a little more matters.
  constexpr double patience = 50e-6, longest = 100e-6;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
  if (seconds < patience) {
    sched_yield();
    return seconds;
  }
  thread_local const bool precise = (sleep_precisely(), true);
  static_cast<void>(precise);
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(longest, seconds / 16)));
  return seconds;
}

}  // namespace keelson
