#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace keelson {

/// The number in `text`, which must hold nothing else: decimal digits, for a floating-point T also a decimal point and
/// an exponent ("1.5e-3"). No value for a text with anything before or after the number, digit groups, a decimal comma,
/// NaN, an infinity, or a number out of T's range. Leading zeros mean nothing: "010" is ten. Independent of the locale.
template <class T>
  requires std::integral<T> || std::floating_point<T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::floating_point<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace keelson
