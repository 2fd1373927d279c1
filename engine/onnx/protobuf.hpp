#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keelson::onnx {

/// A message of Protocol Buffers as bytes (protobuf.dev/programming-guides/encoding). A field is one varint with the
/// field's number and wire type, and then the value. Fields may come in any order. A repeated field is written once for
/// each value.
class Message {
 public:
  /// An integer or an enumerator, as a varint: 7 bits in each byte, lowest bits first; bit 7 is set if more bytes
  /// follow.
  void integer(int field, std::int64_t value);
  void real(int field, float value);  ///< 4 bytes, the lowest first
  /// A length, then that number of bytes.
  void bytes(int field, std::string_view value);
  void message(int field, const Message& value) { bytes(field, value.text()); }  ///< a message inside this one
  /// The beginning of a field of `length` bytes. The caller writes these bytes after text().
  void begin(int field, std::uint64_t length);

  const std::string& text() const { return text_; }  ///< all fields so far

 private:
  void varint(std::uint64_t value);

  std::string text_;
};

}  // namespace keelson::onnx
