#include "tests/support/tfrecords.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

namespace keelson::testing {
namespace {

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// Bit by bit.
std::uint32_t slow_masked_crc32c(const std::string& bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

std::string tfrecord_of(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(slow_masked_crc32c(length)) + data + little_endian(slow_masked_crc32c(data));
}

std::string compressed(const std::string& bytes, Container container) {
  const int window_bits = container == Container::zlib ? 15 : 31;
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, bytes.size()) + 64, ' ');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

std::string varint_of(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string field_of(int number, const std::string& value) {
  return varint_of(static_cast<std::uint64_t>(number) << 3 | 2) + varint_of(value.size()) + value;
}

std::string bytes_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return little_endian(bits);
}

std::string bytes_feature(const std::string& value) { return field_of(1, field_of(1, value)); }

std::string floats_feature(const std::vector<float>& values) {
  std::string packed;
  for (const float v : values) packed += bytes_of_float(v);
  return field_of(2, field_of(1, packed));
}

std::string single_floats_feature(const std::vector<float>& values) {
  std::string list;
  for (const float v : values) list += varint_of(1 << 3 | 5) + bytes_of_float(v);
  return field_of(2, list);
}

std::string example_of(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string all;
  for (const auto& [name, feature] : features) all += field_of(1, field_of(1, name) + field_of(2, feature));
  return field_of(1, all);
}

}  // namespace keelson::testing
