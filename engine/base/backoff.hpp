#pragma once

#include <chrono>

namespace keelson {

/// How to wait by repeated tests: without a pause at first, then with pauses that leave the core to others.
class Backoff {
 public:
  /// Called after each test that failed. Returns the seconds waited so far, counted from the end of the first tests
  /// without a pause.
  double operator()();
  /// After so many seconds a wait is long enough for the watchdog to look at it.
  static constexpr double late = 0.5;

 private:
  int tests_ = 0;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace keelson
