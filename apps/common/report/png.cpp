#include "apps/common/report/png.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson::app {
namespace {

void append_number(std::string& to, std::uint32_t n) {  // big-endian
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(n >> shift & 0xff);
}

/// CRC-32 of ISO 3309, as PNG has it.
std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

void append_chunk(std::string& to, const std::string& type, const std::string& data) {
  append_number(to, static_cast<std::uint32_t>(data.size()));
  to += type + data;
  append_number(to, crc32(type + data));
}

/// A zlib stream (RFC 1950) whose deflate blocks (RFC 1951) are stored as they are.
std::string stored(const std::string& data) {
  constexpr std::size_t most = 65535;
  std::string out = "\x78\x01";
  for (std::size_t at = 0; at == 0 || at < data.size(); at += most) {
    const std::size_t n = std::min(most, data.size() - at);
    out += static_cast<char>(at + n == data.size() ? 1 : 0);
    for (const std::size_t length : {n, ~n}) {
      out += static_cast<char>(length & 0xff);
      out += static_cast<char>(length >> 8 & 0xff);
    }
    out.append(data, at, n);
  }
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (const char c : data) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  append_number(out, b << 16 | a);
  return out;
}

}  // namespace

std::string png(int width, int height, std::span<const std::uint8_t> pixels, std::span<const Colour> palette) {
  KEELSON_EXPECT(width > 0 && height > 0 && !palette.empty() && palette.size() <= 256);
  KEELSON_EXPECT(pixels.size() == static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  std::string header, colours, rows;
  append_number(header, static_cast<std::uint32_t>(width));
  append_number(header, static_cast<std::uint32_t>(height));
  for (const char c : {8, 3, 0, 0, 0}) header += c;  // bits, palette; deflate, filters, not interlaced
  for (const Colour& colour : palette) colours.append(colour.begin(), colour.end());
  for (int row = 0; row < height; ++row) {
    rows += '\0';  // not filtered
    const auto first = pixels.begin() + std::ptrdiff_t{row} * width;
    rows.append(first, first + width);
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "PLTE", colours);
  append_chunk(out, "IDAT", stored(rows));
  append_chunk(out, "IEND", "");
  return out;
}

std::string base64(const std::string& bytes) {
  constexpr const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? letters[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace keelson::app
