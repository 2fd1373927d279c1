#pragma once

#include <cstddef>
#include <string_view>

namespace keelson::lm::detail {

/// Bytes of the code point that begins with `lead`, a valid first byte.
constexpr std::size_t utf8_length(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

struct Utf8Prefix {
  std::size_t bytes = 0;  ///< length of the complete, valid code points
  bool bad = false;       ///< true: the next bytes are invalid; false: the text ends, or ends within a code point
};

/// The prefix of `text` that is valid UTF-8 (RFC 3629) without NUL.
Utf8Prefix valid_utf8(std::string_view text);

}  // namespace keelson::lm::detail
