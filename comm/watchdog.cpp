#include <cstdlib>
#include <string>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm {
namespace {

double seconds_from(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end != '\0' || !(value >= 0) || value > 1e9)
    refuse("the environment variable {} is '{}'; a number of seconds is expected, 0 for never", variable, text);
  return value;
}

}  // namespace

Watchdog Watchdog::from_environment() {
  Watchdog watchdog;
  watchdog.seconds = seconds_from("KEELSON_WATCHDOG", watchdog.seconds);
  watchdog.abort_seconds = seconds_from("KEELSON_WATCHDOG_ABORT", watchdog.abort_seconds);
  return watchdog;
}

}  // namespace keelson::comm
