#include "engine/base/detail/backoff.hpp"

#include <sched.h>

#include <thread>

namespace keelson {

double Backoff::operator()() {
  constexpr int eager = 200;  // tests before others may have the core, and before the clock is read
  if (tests_ < eager) {
    if (++tests_ == eager) since_ = std::chrono::steady_clock::now();
    return 0;
  }
  sched_yield();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
  if (seconds >= late) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return seconds;
}

}  // namespace keelson
