#include "tests/onnx/reader.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {

namespace {

std::uint64_t read_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest.empty()) fail("a message ends within a number");
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than 64 bits");
}

std::string_view read_bytes(std::string_view& rest, std::uint64_t count) {
  if (count > rest.size()) fail("a message of {} bytes ends {} bytes too early", rest.size(), count - rest.size());
  const auto bytes = rest.substr(0, count);
  rest.remove_prefix(count);
  return bytes;
}

template <class T>
std::vector<T> elements_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

ProtoMessage::ProtoMessage(std::string_view bytes) : all_(bytes) {
  std::string_view rest = all_;
  while (!rest.empty()) {
    const std::uint64_t tag = read_varint(rest);
    Field f{static_cast<int>(tag >> 3), static_cast<int>(tag & 7), 0, 0, 0};
    if (f.number == 0) fail("a field has the number 0");
    if (f.wire_type == 0) {
      f.integer = read_varint(rest);
    } else if (f.wire_type == 2) {
      f.count = read_varint(rest);
      f.begin = all_.size() - rest.size();
      read_bytes(rest, f.count);
    } else if (f.wire_type == 5) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, read_bytes(rest, 4).data(), 4);
      f.integer = bits;
    } else {
      fail("field {} has the wire type {}", f.number, f.wire_type);
    }
    fields_.push_back(f);
  }
}

std::vector<ProtoMessage::Field> ProtoMessage::of(int number, int wire_type) const {
  std::vector<Field> found;
  for (const Field& f : fields_) {
    if (f.number != number) continue;
    if (f.wire_type != wire_type) fail("field {} has the wire type {}, expected {}", number, f.wire_type, wire_type);
    found.push_back(f);
  }
  return found;
}

bool ProtoMessage::has(int field) const {
  return std::ranges::any_of(fields_, [&](const Field& f) { return f.number == field; });
}

std::vector<std::int64_t> ProtoMessage::integers(int field) const {
  std::vector<std::int64_t> values;
  for (const Field& f : of(field, 0)) values.push_back(static_cast<std::int64_t>(f.integer));
  return values;
}

std::vector<std::string> ProtoMessage::texts(int field) const {
  std::vector<std::string> values;
  for (const Field& f : of(field, 2)) values.push_back(all_.substr(f.begin, f.count));
  return values;
}

std::vector<ProtoMessage> ProtoMessage::messages(int field) const {
  std::vector<ProtoMessage> values;
  for (const auto& bytes : texts(field)) values.emplace_back(bytes);
  return values;
}

std::int64_t ProtoMessage::integer(int field) const {
  const auto all = integers(field);
  if (all.size() != 1) fail("field {} is there {} times", field, all.size());
  return all[0];
}

float ProtoMessage::real(int field) const {
  const auto all = of(field, 5);
  if (all.size() != 1) fail("field {} is there {} times", field, all.size());
  return std::bit_cast<float>(static_cast<std::uint32_t>(all[0].integer));
}

std::string ProtoMessage::text(int field) const {
  const auto all = texts(field);
  if (all.size() != 1) fail("field {} is there {} times", field, all.size());
  return all[0];
}

std::vector<std::string> names_of(const std::vector<ProtoMessage>& messages, int field) {
  std::vector<std::string> names;
  for (const auto& m : messages) names.push_back(m.text(field));
  return names;
}

OnnxFile::OnnxFile(const std::string& path)
    : model(bytes_of(path)),
      graph(model.message(7)),
      nodes(graph.messages(1)),
      initializers(graph.messages(5)),
      inputs(graph.messages(11)),
      outputs(graph.messages(12)) {}

const ProtoMessage& OnnxFile::node(const std::string& type) const {
  const auto of_type = [&](const ProtoMessage& n) { return n.text(4) == type; };
  if (std::ranges::count_if(nodes, of_type) != 1) fail("there is not one operator {}", type);
  return *std::ranges::find_if(nodes, of_type);
}

const ProtoMessage& OnnxFile::initializer(const std::string& name) const {
  const auto found = std::ranges::find_if(initializers, [&](const ProtoMessage& t) { return t.text(8) == name; });
  if (found == initializers.end()) fail("there is no initializer {}", name);
  return *found;
}

std::vector<float> OnnxFile::floats(const std::string& name) const {
  const auto& tensor = initializer(name);
  if (tensor.integer(2) != 1) fail("the initializer {} is not float32", name);
  return elements_of<float>(tensor.text(9));
}

std::vector<std::int64_t> OnnxFile::integers(const std::string& name) const {
  const auto& tensor = initializer(name);
  if (tensor.integer(2) != 7) fail("the initializer {} is not int64", name);
  return elements_of<std::int64_t>(tensor.text(9));
}

std::vector<std::int64_t> OnnxFile::attribute(const ProtoMessage& node, const std::string& name) {
  for (const auto& a : node.messages(5))
    if (a.text(1) == name) return a.has(3) ? a.integers(3) : a.integers(8);
  fail("{} has no attribute {}", node.text(3), name);
}

std::vector<std::string> dims_of(const ProtoMessage& value) {
  std::vector<std::string> dims;
  for (const auto& dim : value.message(2).message(1).message(2).messages(1))
    dims.push_back(dim.has(1) ? std::to_string(dim.integer(1)) : dim.text(2));
  return dims;
}

}  // namespace keelson::testing
