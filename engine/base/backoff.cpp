#include "engine/base/backoff.hpp"

#include <sched.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <thread>

namespace keelson {
namespace {

/// Linux wakes a sleeping thread up to 50 us late, unless the thread requests more precision.
void sleep_precisely() {
#ifdef __linux__
  constexpr unsigned long nanoseconds = 1000;
  prctl(PR_SET_TIMERSLACK, nanoseconds);
#endif
}

}  // namespace

double Backoff::operator()() {
  constexpr int eager = 200;  // tests before the thread yields, and before the clock is read
  if (tests_ < eager) {
    if (++tests_ == eager) since_ = std::chrono::steady_clock::now();
    return 0;
  }
  // A thread that only yields still gets its share of the core, and so slows down the rank that it waits for. Longer
  // waits therefore sleep, for a time that is short compared with the wait so far.
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
