#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keelson::testing {

/// A message of Protocol Buffers, read by the rules of protobuf.dev/programming-guides/encoding and by no code of the
/// engine. A number of a field is that of onnx.proto. Throws Error for bytes that are no message.
class ProtoMessage {
 public:
  explicit ProtoMessage(std::string_view bytes);

  bool has(int field) const;
  std::vector<std::int64_t> integers(int field) const;  ///< in the order of the file
  std::vector<std::string> texts(int field) const;
  std::vector<ProtoMessage> messages(int field) const;
  std::int64_t integer(int field) const;  ///< throws Error unless the field is there once, as do the others
  float real(int field) const;
  std::string text(int field) const;
  ProtoMessage message(int field) const { return ProtoMessage(text(field)); }

 private:
  struct Field {
    int number, wire_type;
    std::uint64_t integer;     ///< also the four bytes of a real number
    std::size_t begin, count;  ///< of the bytes, in all_
  };
  std::vector<Field> of(int number, int wire_type) const;

  std::string all_;
  std::vector<Field> fields_;
};

/// The names that messages have in a field.
std::vector<std::string> names_of(const std::vector<ProtoMessage>& messages, int field);

/// A model file, read into what the tests ask for.
struct OnnxFile {
  explicit OnnxFile(const std::string& path);

  ProtoMessage model, graph;
  std::vector<ProtoMessage> nodes, initializers, inputs, outputs;

  /// Types of the operators, in order.
  std::vector<std::string> types() const { return names_of(nodes, 4); }
  /// The only operator of this type.
  const ProtoMessage& node(const std::string& type) const;
  const ProtoMessage& initializer(const std::string& name) const;
  std::vector<float> floats(const std::string& name) const;           ///< values of an initializer
  std::vector<std::int64_t> integers(const std::string& name) const;  ///< values of an initializer
  /// The values of an attribute of an operator that are integers.
  static std::vector<std::int64_t> attribute(const ProtoMessage& node, const std::string& name);
};

/// Dimensions of an input or output, as text: {"batch", "4"}.
std::vector<std::string> dims_of(const ProtoMessage& value);

}  // namespace keelson::testing
