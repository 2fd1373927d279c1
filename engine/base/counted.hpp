#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace keelson {

/// "1 sample", "2 samples".
template <std::integral Number>
std::string counted(Number n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace keelson
