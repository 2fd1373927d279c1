#include "comm/communicators.hpp"
#include "engine/base/environment.hpp"

namespace keelson::comm {

Watchdog Watchdog::from_environment() {
  Watchdog watchdog;
  watchdog.seconds = seconds_from_environment("KEELSON_WATCHDOG", watchdog.seconds);
  watchdog.abort_seconds = seconds_from_environment("KEELSON_WATCHDOG_ABORT", 3 * watchdog.seconds);
  watchdog.abort_elsewhere_seconds =
      seconds_from_environment("KEELSON_WATCHDOG_ABORT", watchdog.abort_elsewhere_seconds);
  return watchdog;
}

}  // namespace keelson::comm
