#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace keelson::app {

/// Prints how many of many pieces are done: each second on a terminal, where each line replaces the one before, else
/// every 15 seconds; and the last one. `what`: "universe".
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  void show(std::int64_t done, std::int64_t total);

 private:
  std::string what_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace keelson::app
