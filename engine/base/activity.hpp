#pragma once

#include <cstdint>
#include <string>

#include "engine/base/trace.hpp"

namespace keelson {

/// What the calling thread does from construction to destruction: part of the watchdog's messages, and a span of the
/// process' trace. Of nested activities, messages name the outermost.
class Activity {
 public:
  /// The kind of work.
  enum class Kind : std::uint8_t { step, validation, checkpoint, evaluation };

  /// `step`: for a step its number from 1, else the number of steps done; `epoch`: from 1. An evaluation has neither.
  explicit Activity(Kind kind, std::int64_t step = 0, std::int64_t epoch = 0);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Whether the calling thread has an activity.
  static bool any();
  /// The calling thread's activity: "step 12 (epoch 3)", "the validation after step 12 (epoch 3)"; empty: none.
  static std::string describe();

 private:
  TraceSpan span_;
  Kind kind_;
  std::int64_t step_, epoch_;
};

}  // namespace keelson
