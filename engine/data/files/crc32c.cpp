#include "engine/data/files/crc32c.hpp"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace keelson {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t reflected_polynomial = 0x82F63B78u;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ reflected_polynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

#ifdef __x86_64__
/// Bytes of each of three parts whose checksums are computed side by side: the instruction takes three cycles, but can
/// begin in each.
constexpr std::size_t side_by_side = 4096;

/// What becomes of a register, before the last inversion, when `side_by_side` zero bytes follow. A linear map: a table
/// for each of its four bytes.
struct ZerosBehind {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  ZerosBehind() {
    const std::array<char, side_by_side> zeros{};
    for (std::uint32_t byte = 0; byte < 4; ++byte)
      for (std::uint32_t bit = 0; bit < 8; ++bit) {
        const std::uint32_t one = std::uint32_t{1} << bit;
        const std::uint32_t shifted = ~crc32c_by_table(zeros.data(), zeros.size(), ~(one << (8 * byte)));
        for (std::uint32_t value = 0; value < 256; ++value)
          if (value & one) tables[byte][value] ^= shifted;
      }
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^ tables[3][crc >> 24];
  }
};

std::uint64_t word_at(const unsigned char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(const unsigned char* p, std::size_t bytes,
                                                                      std::uint32_t before) {
  static const ZerosBehind zeros_behind;
  std::uint64_t crc = static_cast<std::uint32_t>(~before);
  for (; bytes >= 3 * side_by_side; bytes -= 3 * side_by_side, p += 3 * side_by_side) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < side_by_side; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(p + i));
      second = _mm_crc32_u64(second, word_at(p + side_by_side + i));
      third = _mm_crc32_u64(third, word_at(p + 2 * side_by_side + i));
    }
    const std::uint32_t two = zeros_behind(static_cast<std::uint32_t>(crc)) ^ static_cast<std::uint32_t>(second);
    crc = zeros_behind(two) ^ static_cast<std::uint32_t>(third);
  }
  for (; bytes >= 8; bytes -= 8, p += 8) crc = _mm_crc32_u64(crc, word_at(p));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; bytes > 0; --bytes, ++p) rest = _mm_crc32_u8(rest, *p);
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(const void* data, std::size_t bytes, std::uint32_t before) {
  static constexpr auto table = crc_table();
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~before;
  for (; bytes > 0; --bytes, ++p) crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_by_instruction(static_cast<const unsigned char*>(data), bytes, before);
#endif
  return crc32c_by_table(data, bytes, before);
}

}  // namespace keelson
