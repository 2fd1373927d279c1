#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_convert.hpp"
#include "engine/data/arrays/detail/array_forms.hpp"

/// NumPy's format of one array (numpy.lib.format, versions 1, 2 and 3).
namespace keelson::detail {
namespace {

using hdf5::Type;

constexpr std::string_view npy_magic = "\x93NUMPY";

/// The header: a literal of Python, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class NpyHeader {
 public:
  NpyHeader(const std::string& where, std::string_view text) : where_(where), all_(text), rest_(text) { parse(); }

  std::string descr;
  bool fortran_order = false;
  hdf5::Dims shape;

 private:
  void parse() {
    bool has_descr = false, has_order = false, has_shape = false;
    take('{');
    while (!skip('}')) {
      const std::string key = text();
      take(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        if (peek() == '[')
          refuse("{}: holds structured elements {}. Expected plain numbers: save each field as an array of its own",
                 where_, rest_.substr(0, rest_.find(']') + 1));
        descr = text();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        fortran_order = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        read_shape();
      } else {
        refuse_header();
      }
      if (!skip(',') && peek() != '}') refuse_header();
    }
    if (!has_descr || !has_order || !has_shape || rest_.find_first_not_of(" \n") != std::string_view::npos)
      refuse_header();
  }
  char peek() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool skip(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void take(char c) {
    if (!skip(c)) refuse_header();
  }
  std::string text() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse_header();
    const auto end = rest_.find(quote, 1);
    if (end == std::string_view::npos) refuse_header();
    std::string found(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return found;
  }
  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    refuse_header();
  }
  void read_shape() {
    take('(');
    while (!skip(')')) {
      peek();
      std::int64_t extent = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0) refuse_header();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      skip('L');  // of NumPy for Python 2
      shape.push_back(extent);
      if (!skip(',') && peek() != ')') refuse_header();
    }
  }
  [[noreturn]] void refuse_header() const {
    refuse(
        "{}: has the header '{}'. Expected {{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}}, as numpy.save "
        "writes it. Is the file damaged?",
        where_, all_.substr(0, 200));
  }

  const std::string& where_;
  std::string_view all_, rest_;
};

/// Sets the type by NumPy's code: "<f4", "|u1", ">i2".
void set_type(ArrayInfo& array, const std::string& descr, const std::string& where) {
  const char order = descr.empty() ? '\0' : descr.front();
  const std::string code = std::string("<>|=").find(order) == std::string::npos ? descr : descr.substr(1);
  constexpr std::pair<std::string_view, Type> codes[] = {
      {"b1", Type::u8},  {"i1", Type::i8},  {"u1", Type::u8},  {"i2", Type::i16}, {"u2", Type::u16}, {"i4", Type::i32},
      {"u4", Type::u32}, {"i8", Type::i64}, {"u8", Type::u64}, {"f2", Type::f16}, {"f4", Type::f32}, {"f8", Type::f64}};
  const auto found = std::ranges::find(codes, code, [](const auto& c) { return c.first; });
  if (found == std::end(codes))
    refuse(
        "{}: holds elements of the dtype '{}'. Expected integers, booleans or floating point of up to 8 bytes: convert "
        "it, e.g. with array.astype('float32')",
        where, descr);
  array.type = found->second;
  const bool little = std::endian::native == std::endian::little, several = hdf5::size_of(array.type) > 1;
  array.swapped = several && (little ? order == '>' : order == '<');
  array.type_name = fmt::format("{}{}",
                                !array.swapped ? ""
                                : little       ? "big-endian "
                                               : "little-endian ",
                                code == "b1" ? "bool" : hdf5::to_string(array.type));
}

}  // namespace

ArrayInfo parse_npy(const std::string& where, std::span<const char> first, std::int64_t size) {
  const std::string_view bytes(first.data(), first.size());
  if (!bytes.starts_with(npy_magic) || bytes.size() < 12)
    refuse("{}: is no array of NumPy. Expected \\x93NUMPY at its beginning, as numpy.save writes it", where);
  const int version = bytes[6];
  if (version < 1 || version > 3)
    refuse("{}: is of version {} of NumPy's format. Expected 1, 2 or 3. Is the file damaged?", where, version);
  const auto byte = [&](std::size_t i) { return static_cast<std::int64_t>(static_cast<unsigned char>(bytes[i])); };
  const bool is_short = version == 1;
  const std::int64_t begin = is_short ? 10 : 12,
                     length = byte(8) + (byte(9) << 8) + (is_short ? 0 : (byte(10) << 16) + (byte(11) << 24));
  if (begin + length > std::ssize(bytes))
    refuse(
        "{}: has a header of {} bytes. Expected at most {}, and the whole header in the file of {} bytes. Is the copy "
        "complete?",
        where, length, npy_header_limit - 12, size);
  const NpyHeader header(where, bytes.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(length)));
  ArrayInfo array;
  array.shape = header.shape;
  set_type(array, header.descr, where);
  const std::int64_t needed = bytes_of_shape(where, array.shape, hdf5::size_of(array.type));
  if (header.fortran_order && std::ranges::count_if(array.shape, [](auto n) { return n != 1; }) > 1)
    refuse("{}: is in Fortran order. Expected C order: numpy.save(file, numpy.ascontiguousarray(array))", where);
  array.begin = begin + length;
  if (size - array.begin != needed)
    refuse("{}: has {} bytes of elements. Expected {}, for the shape {} of {}. Is the copy complete?", where,
           size - array.begin, needed, hdf5::to_string(array.shape), array.type_name);
  return array;
}

std::unique_ptr<const ArrayFile> open_npy(RawFile file) {
  const std::int64_t size = file.size();
  std::vector<char> first(static_cast<std::size_t>(std::min(size, npy_header_limit)));
  // Most headers are short, and the file system may be slow.
  constexpr std::int64_t usual = 1024;
  file.read(first.data(), std::min(size, usual), 0);
  if (size > usual) {
    const auto* const u = reinterpret_cast<const unsigned char*>(first.data());
    const bool is_usual = 12 + u[8] + 256 * u[9] + (u[6] == 1 ? 0 : 65536 * u[10]) <= usual;
    if (is_usual)
      first.resize(usual);
    else
      file.read(first.data(), std::ssize(first), 0);
  }
  ArrayInfo array = parse_npy(file.path(), first, size);
  array.name = std::filesystem::path(file.path()).stem().string();
  array.file = file.path();
  return std::make_unique<const ListedArrays>(file.path(), "NumPy (.npy)", std::vector{std::move(array)});
}

}  // namespace keelson::detail
