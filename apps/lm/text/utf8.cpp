#include <cstdint>
#include <cstring>

#include "apps/lm/text/detail/utf8.hpp"

namespace keelson::lm::detail {
namespace {

enum class Sequence { whole, partial, bad };

/// The table of RFC 3629, section 4: which second bytes may follow `lead`, so that overlong forms, surrogates and code
/// points beyond U+10FFFF are invalid.
bool second_byte_fits(unsigned char lead, unsigned char c) {
  const unsigned char from = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char to = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return c >= from && c <= to;
}

/// Classifies the first sequence of `s`, which has at least one byte.
Sequence first_sequence(const unsigned char* s, std::size_t bytes) {
  if (s[0] < 0x80) return s[0] == 0 ? Sequence::bad : Sequence::whole;
  if (s[0] < 0xC2 || s[0] > 0xF4) return Sequence::bad;
  const std::size_t length = utf8_length(static_cast<char>(s[0]));
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes) return Sequence::partial;
    if (i == 1 ? !second_byte_fits(s[0], s[1]) : (s[i] & 0xC0) != 0x80) return Sequence::bad;
  }
  return Sequence::whole;
}

/// Whether eight bytes are all in 1 ... 0x7F: subtracting 1 from each sets the top bit of a zero byte.
bool plain_ascii(const unsigned char* s) {
  std::uint64_t w;
  std::memcpy(&w, s, sizeof w);
  return ((w | (w - 0x0101010101010101u)) & 0x8080808080808080u) == 0;
}

}  // namespace

Utf8Prefix valid_utf8(std::string_view text) {
  const auto* s = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size() && plain_ascii(s + at)) {
      at += 8;
      continue;
    }
    const auto found = first_sequence(s + at, text.size() - at);
    if (found != Sequence::whole) return {at, found == Sequence::bad};
    at += utf8_length(text[at]);
  }
  return {at, false};
}

}  // namespace keelson::lm::detail
