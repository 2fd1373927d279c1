#include "engine/base/verbose.hpp"

#include <cstdlib>
#include <string_view>

namespace keelson {

bool verbose() {
  static const bool on = [] {
    const char* v = std::getenv("KEELSON_VERBOSE");
    return v && *v && std::string_view(v) != "0";
  }();
  return on;
}

}  // namespace keelson
