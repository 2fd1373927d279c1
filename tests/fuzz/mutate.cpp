#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace keelson::fuzz {
namespace {

std::size_t below(std::size_t n, Random& random) { return n == 0 ? 0 : random() % n; }

std::size_t place_in(const std::string& bytes, Random& random) {
  constexpr std::size_t structure = 4096;
  return below(random() % 2 == 0 ? std::min(bytes.size(), structure) : bytes.size(), random);
}

void turn_bits(std::string& bytes, Random& random) {
  for (auto n = 1 + below(8, random); n > 0; --n)
    bytes[place_in(bytes, random)] ^= static_cast<char>(1u << below(8, random));
}

void put_number(std::string& bytes, Random& random) {
  constexpr std::array<std::uint64_t, 10> extreme{0,
                                                  1,
                                                  0xff,
                                                  0x7fffffff,
                                                  0x80000000,
                                                  0xffffffff,
                                                  0x7fffffffffffffff,
                                                  0x8000000000000000,
                                                  0xffffffffffffffff,
                                                  0x7fc000007fc00000};  // the last: two NaN of 4 bytes
  const std::uint64_t value = random() % 4 == 0 ? random() : extreme[below(extreme.size(), random)];
  const std::size_t width = std::size_t{1} << below(4, random), at = place_in(bytes, random) / width * width;
  std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
}

void cut_end(std::string& bytes, Random& random) { bytes.resize(below(bytes.size(), random)); }

void move_part(std::string& bytes, Random& random) {
  const std::size_t from = place_in(bytes, random), to = place_in(bytes, random);
  const auto part = bytes.substr(from, 1 + below(512, random));
  switch (random() % 3) {
    case 0:
      bytes.erase(from, part.size());
      break;
    case 1:
      bytes.insert(to, part);
      break;
    default:
      bytes.replace(to, std::min(part.size(), bytes.size() - to), part, 0, std::min(part.size(), bytes.size() - to));
  }
}

void put_noise(std::string& bytes, Random& random) {
  const auto at = place_in(bytes, random);
  for (auto i = at; i < std::min(bytes.size(), at + 64); ++i) bytes[i] = static_cast<char>(random());
}

}  // namespace

std::string damage_bytes(std::string bytes, Random& random) {
  constexpr std::array ways{turn_bits, put_number, put_number, cut_end, move_part, put_noise};
  for (auto n = 1 + below(3, random); n > 0 && !bytes.empty(); --n) ways[below(ways.size(), random)](bytes, random);
  return bytes;
}

std::string damage_text(std::string text, Random& random) {
  constexpr std::array<std::string_view, 32> words{
      "nan",  "inf",          "-inf",       "-1",       "0",    "1e999",     "99999999999999999999",
      "0x10", "1_0",          "0,5",        "1.5",      "true", "\"\"",      "\"x\"",
      "[]",   "{}",           "[1, 2]",     "=",        "\n",   "[section]", "a.b = 1",
      "#",    "\"",           "\"\"\"",     "\\",       "'",    "\r",        std::string_view("\0", 1),
      "\xff", "\xef\xbb\xbf", "2026-01-01", "/dev/null"};
  for (auto n = 1 + below(3, random); n > 0; --n) {
    const auto at = below(text.size() + 1, random);
    const auto end = std::min(text.find_first_of(" \n=", at), text.size());
    const auto word = words[below(words.size(), random)];
    if (random() % 3 == 0)
      text = damage_bytes(std::move(text), random);
    else if (random() % 2 == 0)
      text.replace(at, end - at, word);
    else
      text.insert(at, word);
  }
  return text;
}

}  // namespace keelson::fuzz
