#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keelson::onnx {

/// A message of Protocol Buffers as bytes (protobuf.dev/programming-guides/encoding). A field is its number and the way
/// in which its value is written, as one varint, and the value. Fields may come in any order. A repeated field is
/// written once for each value.
class Message {
 public:
  /// An integer or an enumerator, as a varint: 7 bits in each byte, the lowest ones first; bit 7 says that more follow.
  void integer(int field, std::int64_t value);
  void real(int field, float value);  ///< 4 bytes, the lowest first
  /// A length and so many bytes.
  void bytes(int field, std::string_view value);
  void message(int field, const Message& value) { bytes(field, value.text()); }  ///< a message inside this one
  /// The beginning of a field of `length` bytes. The caller writes these bytes behind text().
  void begin(int field, std::uint64_t length);

  const std::string& text() const { return text_; }  ///< all fields so far

 private:
  void varint(std::uint64_t value);

  std::string text_;
};

}  // namespace keelson::onnx
