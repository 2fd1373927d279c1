#include "engine/onnx/protobuf.hpp"

#include <bit>

namespace keelson::onnx {

namespace {

/// How the value of a field is written.
enum class WireType : std::uint8_t { varint = 0, length_delimited = 2, four_bytes = 5 };

std::uint64_t tag(int field, WireType type) {
  return static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type);
}

}  // namespace

void Message::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>((value & 0x7f) | 0x80);
  text_ += static_cast<char>(value);
}

void Message::integer(int field, std::int64_t value) {
  varint(tag(field, WireType::varint));
  varint(static_cast<std::uint64_t>(value));
}

void Message::real(int field, float value) {
  varint(tag(field, WireType::four_bytes));
  auto bits = std::bit_cast<std::uint32_t>(value);
  for (int i = 0; i < 4; ++i, bits >>= 8) text_ += static_cast<char>(bits & 0xff);
}

void Message::begin(int field, std::uint64_t length) {
  varint(tag(field, WireType::length_delimited));
  varint(length);
}

void Message::bytes(int field, std::string_view value) {
  begin(field, value.size());
  text_ += value;
}

}  // namespace keelson::onnx
