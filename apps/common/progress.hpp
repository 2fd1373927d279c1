#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace keelson::app {

/// Prints how many pieces of work are done: on a terminal every second, where each line replaces the line before, else
/// every 15 seconds; and at the end. `what`: name of a piece, e.g. "universe"; `note`: appended, e.g. ", 1.2 GB/s".
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  void show(std::int64_t done, std::int64_t total, const std::string& note = "");

 private:
  std::string what_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace keelson::app
