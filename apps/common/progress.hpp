#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace keelson::app {

/// Prints how many pieces of work are done: on a terminal every second, where each line replaces the line before, else
/// every 15 seconds; and at the end. `what`: name of a piece, e.g. "universe"; `note`: appended, e.g. ", 1.2 GB/s".
/// `ranks`: how many share the work, of which rank 0 shows its part; the lines then say so.
class Progress {
 public:
  explicit Progress(std::string what, int ranks = 1) : what_(std::move(what)), ranks_(ranks) {}
  void show(std::int64_t done, std::int64_t total, const std::string& note = "");

 private:
  std::string what_;
  int ranks_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace keelson::app
