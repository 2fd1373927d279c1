#pragma once

#include <string_view>

namespace keelson {

/// Watches how long a rank waits for other ranks, and reports long waits. By default nothing is reported.
class Watchdog {
 public:
  virtual ~Watchdog() = default;
  /// For a host that waits for a device whose work may in turn wait for other ranks. Called repeatedly during the wait,
  /// `seconds` after its beginning. `waiting_for` is for the report: "the loss of step 12". Throws Error if the
  /// communication is known to have failed.
  virtual void poll(std::string_view waiting_for, double seconds) { (void)waiting_for, (void)seconds; }
};

}  // namespace keelson
