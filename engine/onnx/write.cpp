#include "engine/onnx/write.hpp"

#include <bit>
#include <cerrno>
#include <fstream>
#include <span>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/onnx/protobuf.hpp"

// Field numbers, types and their numbers: github.com/onnx/onnx onnx/onnx.proto.
namespace keelson::onnx {

static_assert(std::endian::native == std::endian::little, "ONNX stores the lowest byte of a number first");

namespace {

namespace fs = std::filesystem;

enum TensorType : std::uint8_t {
  type_float = 1,
  type_uint8 = 2,
  type_uint16 = 4,
  type_int32 = 6,
  type_int64 = 7,
  type_float16 = 10,
  type_double = 11,
  type_bfloat16 = 16
};

TensorType type_of(DType type) {
  switch (type) {
    case DType::f32:
      return type_float;
    case DType::f64:
      return type_double;
    case DType::bf16:
      return type_bfloat16;
    case DType::f16:
      return type_float16;
    case DType::s32:
      return type_int32;
    case DType::u8:
      return type_uint8;
    case DType::u16:
      return type_uint16;
  }
  return type_float;
}

Message string_pair(const std::string& key, const std::string& value) {
  Message m;
  m.bytes(1, key);
  m.bytes(2, value);
  return m;
}

Message attribute_message(const Attribute& a) {
  enum Type : std::uint8_t { real = 1, integer = 2, string = 3, integers = 7 };
  Message m;
  m.bytes(1, a.name);
  if (const auto* f = std::get_if<float>(&a.value)) {
    m.real(2, *f);
    m.integer(20, real);
  } else if (const auto* i = std::get_if<std::int64_t>(&a.value)) {
    m.integer(3, *i);
    m.integer(20, integer);
  } else if (const auto* s = std::get_if<std::string>(&a.value)) {
    m.bytes(4, *s);
    m.integer(20, string);
  } else {
    for (const auto v : std::get<std::vector<std::int64_t>>(a.value)) m.integer(8, v);
    m.integer(20, integers);
  }
  return m;
}

Message node_message(const Operator& op) {
  Message m;
  for (const auto& name : op.inputs) m.bytes(1, name);
  for (const auto& name : op.outputs) m.bytes(2, name);
  m.bytes(3, op.name);
  m.bytes(4, op.type);
  for (const auto& a : op.attributes) m.message(5, attribute_message(a));
  return m;
}

Message value_message(const Value& v) {
  Message shape;
  for (int i = 0; i < v.shape.shape.rank(); ++i) {
    Message dim;
    if (i == v.shape.batch_axis)
      dim.bytes(2, batch_symbol(v.shape));
    else
      dim.integer(1, v.shape.shape[i]);
    shape.message(1, dim);
  }
  Message tensor, type, m;
  tensor.integer(1, type_of(v.shape.dtype));
  tensor.message(2, shape);
  type.message(1, tensor);
  m.bytes(1, v.name);
  m.message(2, type);
  if (!v.doc.empty()) m.bytes(3, v.doc);
  return m;
}

/// The graph without its initializers.
Message graph_message(const Model& model) {
  Message m;
  for (const auto& op : model.operators) m.message(1, node_message(op));
  m.bytes(2, model.name);
  for (const auto& v : model.inputs) m.message(11, value_message(v));
  for (const auto& v : model.outputs) m.message(12, value_message(v));
  for (const auto& v : model.values) m.message(13, value_message(v));
  return m;
}

/// The model without its graph.
Message model_message(const Model& model) {
  Message m, opset;
  m.integer(1, ir_version);
  m.bytes(2, "keelson");
  m.bytes(3, KEELSON_VERSION);
  if (!model.doc.empty()) m.bytes(6, model.doc);
  opset.bytes(1, "");  // ONNX' own operators
  opset.integer(2, opset_version);
  m.message(8, opset);
  for (const auto& [key, value] : model.metadata) m.message(14, string_pair(key, value));
  return m;
}

bool is_float(const Initializer& i) { return !std::holds_alternative<std::vector<std::int64_t>>(i.values); }

std::int64_t bytes_of(const Initializer& i) {
  std::int64_t elements = 1;
  for (const auto d : i.dims) elements *= d;
  return elements * (is_float(i) ? 4 : 8);
}

/// The position of each initializer's values in the data file; -1: they are in the model file.
std::vector<std::int64_t> offsets_in_data(const Model& model) {
  constexpr std::int64_t smallest = 1024,
                         page = 4096;  // alignment to pages, so that readers can map the values into memory
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
  for (const auto& i : model.initializers) {
    const bool outside = is_float(i) && bytes_of(i) > smallest;
    offsets.push_back(outside ? end : -1);
    if (outside) end += (bytes_of(i) + page - 1) / page * page;
  }
  return offsets;
}

/// A text, and the values that follow it.
struct Part {
  std::string text;
  const Initializer* values = nullptr;  ///< null: none
  std::uint64_t size() const { return text.size() + (values ? static_cast<std::uint64_t>(bytes_of(*values)) : 0); }
};

Part tensor_part(const Initializer& i, std::int64_t offset, const std::string& data_file) {
  Message m;
  for (const auto d : i.dims) m.integer(1, d);
  m.integer(2, is_float(i) ? type_float : type_int64);
  m.bytes(8, i.name);
  if (offset < 0) {
    m.begin(9, static_cast<std::uint64_t>(bytes_of(i)));
    return {m.text(), &i};
  }
  m.message(13, string_pair("location", data_file));
  m.message(13, string_pair("offset", std::to_string(offset)));
  m.message(13, string_pair("length", std::to_string(bytes_of(i))));
  m.integer(14, 1);  // external
  return {m.text()};
}

/// The parts of the model file. A message's size is written before the message, so all parts must be known before the
/// first is written.
std::vector<Part> parts_of_file(const Model& model, const std::vector<std::int64_t>& offsets,
                                const std::string& data_file) {
  const Message graph = graph_message(model);
  std::uint64_t graph_size = graph.text().size();
  std::vector<Part> parts(1);
  for (std::size_t i = 0; i < model.initializers.size(); ++i) {
    Part tensor = tensor_part(model.initializers[i], offsets[i], data_file);
    Message field;
    field.begin(5, tensor.size());
    tensor.text.insert(0, field.text());
    graph_size += tensor.size();
    parts.push_back(std::move(tensor));
  }
  Message head = model_message(model);
  head.begin(7, graph_size);
  parts[0].text = head.text() + graph.text();
  return parts;
}

std::int64_t total_bytes(const std::vector<Part>& parts) {
  std::uint64_t total = 0;
  for (const auto& p : parts) total += p.size();
  return static_cast<std::int64_t>(total);
}

/// A file that replaces another one when it is complete.
class OutputFile {
 public:
  explicit OutputFile(const fs::path& path) : path_(path), file_(path, Target::output) {
    out_.open(file_.temporary(), std::ios::binary);
    check();
  }
  void write(std::span<const char> bytes) {
    out_.write(bytes.data(), std::ssize(bytes));
    check();
  }
  void write(const Initializer& i) {
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&i.values))
      return write_values(std::span(*integers), i);
    const auto values = std::get<std::function<std::vector<float>()>>(i.values)();
    write_values(std::span(values), i);
  }
  void skip_to(std::int64_t offset) {
    out_.seekp(offset);
    check();
  }
  void finish() {
    out_.close();
    check();
    file_.commit();
  }

 private:
  template <class T>
  void write_values(std::span<const T> values, const Initializer& i) {
    KEELSON_EXPECT(static_cast<std::int64_t>(values.size_bytes()) == bytes_of(i));
    write(std::span(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  }
  void check() const {
    if (!out_) fail("cannot write {}{}", path_.string(), reason_of_writing(errno, file_.temporary().parent_path()));
  }

  fs::path path_;
  AtomicFile file_;
  std::ofstream out_;
};

}  // namespace

fs::path write(const Model& model, const fs::path& file, std::int64_t largest_file) {
  std::vector<std::int64_t> offsets(model.initializers.size(), -1);
  auto parts = parts_of_file(model, offsets, "");
  fs::path data;
  if (total_bytes(parts) > largest_file) {
    if (AtomicFile(file, Target::output).special())
      refuse("{}: is a pipe or a device, and this model needs a second file beside it; expected the name of a file",
             file.string());
    data = file.string() + ".data";
    offsets = offsets_in_data(model);
    parts = parts_of_file(model, offsets, data.filename().string());
    OutputFile out(data);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (offsets[i] < 0) continue;
      out.skip_to(offsets[i]);
      out.write(model.initializers[i]);
    }
    out.finish();
  }
  OutputFile out(file);
  for (const auto& part : parts) {
    out.write(part.text);
    if (part.values) out.write(*part.values);
  }
  out.finish();
  return data;
}

}  // namespace keelson::onnx
