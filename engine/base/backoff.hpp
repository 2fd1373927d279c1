#pragma once

#include <chrono>

namespace keelson {

/// Waits by repeated tests: without a pause at first, then with pauses in which other threads can use the core.
class Backoff {
 public:
  /// Called after each test that failed. Returns the seconds waited so far, from the end of the tests without a pause.
  double operator()();
  /// After so many seconds, a caller lets the watchdog check the wait.
  static constexpr double late = 0.5;

 private:
  int tests_ = 0;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace keelson
