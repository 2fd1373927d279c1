#pragma once

#include <chrono>

namespace keelson {

/// How to wait by testing over and over: eagerly at first, then leaving the core to others between two tests.
class Backoff {
 public:
  /// Called after each test that failed. Seconds waited so far, beginning after the eager tests.
  double operator()();
  /// From this many seconds on, someone is late, and there is time for a watchdog.
  static constexpr double late = 0.5;

 private:
  int tests_ = 0;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace keelson
