#include "engine/base/environment.hpp"

#include <cstdlib>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/printable.hpp"

namespace keelson {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

double seconds_from_environment(const char* name, double otherwise) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  const auto seconds = parse_number<double>(text);
  if (!seconds || *seconds < 0 || *seconds > 1e9)
    refuse("the environment variable {} is '{}'; a number of seconds is expected, from 0 to 1e9", name,
           printable(text));
  return *seconds;
}

}  // namespace keelson
