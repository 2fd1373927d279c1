#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_convert.hpp"
#include "engine/data/arrays/detail/array_forms.hpp"

/// NetCDF's classic format, CDF-1, CDF-2 and CDF-5 ("The NetCDF Classic Format Specification", Unidata; "CDF-5",
/// PnetCDF). The header is parsed here, because the NetCDF library is not thread-safe and PnetCDF needs MPI for each
/// open file; and the elements lie in the file as plain big-endian numbers, which need no library.
namespace keelson::detail {
namespace {

using hdf5::Type;

/// The numbers of a header, one after the other, each checked against the size of the file.
class HeaderReader {
 public:
  HeaderReader(const RawFile& file, std::int64_t begin) : file_(file), size_(file.size()), at_(begin) {}

  void is_wide(bool wide) { wide_ = wide; }
  std::int64_t at() const { return at_; }
  std::int64_t size() const { return size_; }
  const std::string& path() const { return file_.path(); }

  std::uint32_t u32(const char* what) { return number<std::uint32_t>(what); }
  std::uint64_t u64(const char* what) { return number<std::uint64_t>(what); }
  /// A number of NON_NEG: 8 bytes in CDF-5, else 4.
  std::int64_t count(const char* what) {
    const std::int64_t from = at_, n = wide_ ? std::bit_cast<std::int64_t>(u64(what)) : std::int64_t{u32(what)};
    if (n < 0 || (!wide_ && n > INT32_MAX))
      refuse("{}: {} at byte {} is {}. Expected a number from 0. Is the file damaged?", path(), what, from, n);
    return n;
  }
  /// A count of things of at least `bytes` each, which must fit the rest of the file.
  std::int64_t count_of(const char* what, std::int64_t bytes) {
    const std::int64_t from = at_, n = count(what);
    if (n > (size_ - at_) / bytes)
      refuse("{}: {} at byte {} is {}, more than fit in the file of {} bytes. Is the copy complete?", path(), what,
             from, n, size_);
    return n;
  }
  std::string name(const char* what) {
    std::string text(static_cast<std::size_t>(count_of(what, 1)), '\0');
    take(text.data(), std::ssize(text), what);
    pad(std::ssize(text));
    return text;
  }
  void take(void* to, std::int64_t bytes, const char* what) {
    require(bytes, what);
    if (at_ < window_at_ || at_ + bytes > window_at_ + std::ssize(window_)) {
      if (bytes > least_window) {
        file_.read(to, bytes, at_);
        at_ += bytes;
        return;
      }
      window_.resize(static_cast<std::size_t>(std::min(least_window, size_ - at_)));
      window_at_ = at_;
      file_.read(window_.data(), std::ssize(window_), at_);
    }
    std::memcpy(to, window_.data() + (at_ - window_at_), static_cast<std::size_t>(bytes));
    at_ += bytes;
  }
  void skip(std::int64_t bytes, const char* what) {
    require(bytes, what);
    at_ += bytes;
  }
  /// Skips to a multiple of 4 bytes after `bytes`.
  void pad(std::int64_t bytes) { at_ += (4 - bytes % 4) % 4; }

 private:
  void require(std::int64_t bytes, const char* what) const {
    if (bytes > size_ - at_)
      refuse("{}: ends at byte {}, within its header: expected {} at byte {}. Is the copy complete?", path(), size_,
             what, at_);
  }
  template <class T>
  T number(const char* what) {
    unsigned char bytes[sizeof(T)];
    take(bytes, sizeof bytes, what);
    T n = 0;
    for (const unsigned char b : bytes) n = n << 8 | b;
    return n;
  }

  static constexpr std::int64_t least_window = 1 << 14;
  const RawFile& file_;
  std::int64_t size_, at_, window_at_ = 0;
  std::vector<char> window_;
  bool wide_ = false;
};

enum Tag : std::uint32_t { tag_absent = 0, tag_dimension = 10, tag_variable = 11, tag_attribute = 12 };
constexpr std::uint32_t type_char = 2;

/// The element type of a number in the header; `other` for characters.
Type type_of_number(const HeaderReader& in, std::uint32_t number, int version) {
  constexpr Type types[] = {Type::i8, Type::other, Type::i16, Type::i32, Type::f32, Type::f64,
                            Type::u8, Type::u16,   Type::u32, Type::i64, Type::u64};
  if (number < 1 || number > (version == 5 ? 11 : 6))
    refuse("{}: has elements of type {} at byte {}. Expected a type from 1 to {} in CDF-{}. Is the file damaged?",
           in.path(), number, in.at() - 4, version == 5 ? 11 : 6, version);
  return types[number - 1];
}

std::int64_t bytes_of_number(Type type) { return type == Type::other ? 1 : hdf5::size_of(type); }

struct Dimension {
  std::string name;
  std::int64_t length = 0;  ///< 0: the record dimension
};

/// The attributes of a variable that decide what its elements are.
struct Attributes {
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, std::string> texts;
};

struct Variable {
  ArrayInfo info;
  std::vector<std::string> dimensions;
  bool is_record = false;
  std::int64_t bytes = 0;  ///< of all elements, or of those of a record
};

class ClassicHeader {
 public:
  ClassicHeader(const RawFile& file, int version) : in_(file, 4), version_(version) { in_.is_wide(version == 5); }

  /// The arrays, with their places in the file.
  std::vector<Variable> parse() {
    const bool wide = version_ == 5;
    const std::uint64_t records = wide ? in_.u64("the number of records") : in_.u32("the number of records");
    const bool streaming = records == (wide ? UINT64_MAX : UINT32_MAX);
    if (!streaming && records > (wide ? std::uint64_t{INT64_MAX} : std::uint64_t{INT32_MAX}))
      refuse("{}: has {} records. Expected a number from 0. Is the file damaged?", in_.path(), records);
    read_dimensions();
    read_attributes(false);
    read_variables();
    place_records(streaming ? -1 : static_cast<std::int64_t>(records));
    return std::move(variables_);
  }

 private:
  /// The number of elements of a list; 0 if the list is absent.
  std::int64_t begin_list(Tag wanted, const char* what, std::int64_t least_bytes) {
    const std::int64_t from = in_.at();
    const std::uint32_t tag = in_.u32(what);
    const std::int64_t n = in_.count_of(what, least_bytes);
    if (tag == wanted || (tag == tag_absent && n == 0)) return n;
    refuse("{}: has the number {} at byte {}. Expected {}, the mark of {}. Is the file damaged?", in_.path(), tag, from,
           static_cast<std::uint32_t>(wanted), what);
  }

  void read_dimensions() {
    const std::int64_t n = begin_list(tag_dimension, "the list of dimensions", 8);
    bool has_records = false;
    for (std::int64_t i = 0; i < n; ++i) {
      Dimension d{in_.name("the name of a dimension")};
      d.length = in_.count("the length of a dimension");
      if (d.length == 0 && std::exchange(has_records, true))
        refuse("{}: '{}' is a second unlimited dimension. Expected one at most. Is the file damaged?", in_.path(),
               d.name);
      dimensions_.push_back(std::move(d));
    }
  }

  /// `keep`: the attributes of a variable; those of the file are of no use here.
  Attributes read_attributes(bool keep) {
    Attributes all;
    const std::int64_t n = begin_list(tag_attribute, "the list of attributes", 12);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::string name = in_.name("the name of an attribute");
      const std::uint32_t number = in_.u32("the type of an attribute");
      const Type type = type_of_number(in_, number, version_);
      const std::int64_t size = bytes_of_number(type), count = in_.count_of("the length of an attribute", size);
      constexpr std::int64_t most = 4096;  // elements of an attribute that says how numbers are packed
      if (!keep || count > most) {
        in_.skip(count * size, "the values of an attribute");
      } else {
        std::string bytes(static_cast<std::size_t>(count * size), '\0');
        in_.take(bytes.data(), count * size, "the values of an attribute");
        if (number == type_char) {
          all.texts[name] = bytes.substr(0, bytes.find('\0'));
        } else {
          std::vector<double> values(static_cast<std::size_t>(count));
          if (std::endian::native == std::endian::little) swap_bytes(bytes.data(), size, count);
          convert_stored(bytes.data(), type, {}, count, values.data());
          all.numbers[name] = values;
        }
      }
      in_.pad(count * size);
    }
    return all;
  }

  void read_variables() {
    const std::int64_t n = begin_list(tag_variable, "the list of variables", 16);
    for (std::int64_t i = 0; i < n; ++i) read_variable();
    for (const auto& v : variables_)
      if (v.bytes > 0 && v.info.begin < in_.at())
        refuse("{}: the elements of '{}' begin at byte {}, within the header of {} bytes. Is the file damaged?",
               in_.path(), v.info.name, v.info.begin, in_.at());
  }

  void read_variable() {
    Variable v;
    v.info.name = in_.name("the name of a variable");
    const std::string where = fmt::format("{}: '{}'", in_.path(), v.info.name);
    read_shape(v, where);
    const Attributes attributes = read_attributes(true);
    const std::uint32_t number = in_.u32("the type of a variable");
    v.info.type = type_of_number(in_, number, version_);
    in_.skip(version_ == 5 ? 8 : 4, "the size of a variable");  // which is too small in files of large variables
    v.info.begin = version_ == 1 ? std::int64_t{in_.u32("the place of a variable")}
                                 : std::bit_cast<std::int64_t>(in_.u64("the place of a variable"));
    if (v.info.begin < 0 || v.info.begin > in_.size())
      refuse("{}: begins at byte {} of a file of {} bytes. Is the copy complete?", where, v.info.begin, in_.size());
    const bool is_text = v.info.type == Type::other;
    v.info.type_name = is_text ? "text" : std::string(hdf5::to_string(v.info.type));
    v.info.file = in_.path();
    v.info.swapped = std::endian::native == std::endian::little && bytes_of_number(v.info.type) > 1;
    if (!is_text) v.info.packing = packing(where, v.info.type, attributes);
    const auto& s = v.info.shape;
    v.bytes = bytes_of_shape(where, {s.begin() + (v.is_record ? 1 : 0), s.end()}, bytes_of_number(v.info.type));
    if (!v.is_record) require_in_file(v, v.bytes);
    variables_.push_back(std::move(v));
  }

  void read_shape(Variable& v, const std::string& where) {
    const std::int64_t rank = in_.count_of("the number of dimensions of a variable", version_ == 5 ? 8 : 4);
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t which = in_.count("a dimension of a variable");
      if (which >= std::ssize(dimensions_))
        refuse("{}: has the dimension number {} of {}. Is the file damaged?", where, which, dimensions_.size());
      const auto& dimension = dimensions_[static_cast<std::size_t>(which)];
      if (dimension.length == 0 && d > 0)
        refuse("{}: has the unlimited dimension '{}' as its number {}. Expected it first. Is the file damaged?", where,
               dimension.name, d);
      v.is_record = v.is_record || dimension.length == 0;
      v.info.shape.push_back(dimension.length);
      v.dimensions.push_back(dimension.name);
    }
  }

  static ArrayPacking packing(const std::string& where, Type type, const Attributes& attributes) {
    const auto flag = attributes.texts.find("_Unsigned");
    const bool is_unsigned = flag != attributes.texts.end() && says_unsigned(flag->second);
    return packing_of(where, type, is_unsigned, [&](const std::string& name) -> std::optional<std::vector<double>> {
      if (attributes.texts.contains(name)) refuse("{}: the attribute '{}' is a text. Expected numbers", where, name);
      const auto found = attributes.numbers.find(name);
      return found == attributes.numbers.end() ? std::nullopt : std::optional(found->second);
    });
  }

  void require_in_file(const Variable& v, std::int64_t bytes) const {
    if (bytes <= in_.size() - v.info.begin) return;
    refuse(
        "{}: '{}' has the shape {} and begins at byte {}, but the file has {} bytes, {} too few. Is the copy complete?",
        in_.path(), v.info.name, hdf5::to_string(v.info.shape), v.info.begin, in_.size(),
        bytes - (in_.size() - v.info.begin));
  }

  /// A record has the elements of all record variables for one index of the unlimited dimension, each part filled up to
  /// a multiple of 4 bytes; except that a record of one variable alone is not filled up. `records` -1: the file is a
  /// stream, and its size tells how many there are.
  void place_records(std::int64_t records) {
    std::int64_t of_record = 0, parts = 0, begin = in_.size();
    for (const auto& v : variables_) {
      if (!v.is_record) continue;
      ++parts;
      begin = std::min(begin, v.info.begin);
      std::int64_t padded = 0;
      if (__builtin_add_overflow(v.bytes, (4 - v.bytes % 4) % 4, &padded) ||
          __builtin_add_overflow(of_record, padded, &of_record))
        refuse("{}: a record has more than 2^63 bytes. Is the file damaged?", in_.path());
    }
    for (auto& v : variables_) {
      if (!v.is_record) continue;
      if (parts == 1) of_record = v.bytes;
      const std::int64_t n = records >= 0 ? records : of_record > 0 ? (in_.size() - begin) / of_record : 0;
      v.info.shape[0] = n;
      v.info.stride = of_record;
      std::int64_t last = 0;
      if (n > 0 && (__builtin_mul_overflow(n - 1, of_record, &last) || __builtin_add_overflow(last, v.bytes, &last)))
        last = INT64_MAX;
      require_in_file(v, last);
    }
  }

  HeaderReader in_;
  int version_;
  std::vector<Dimension> dimensions_;
  std::vector<Variable> variables_;
};

}  // namespace

std::unique_ptr<const ArrayFile> open_netcdf_classic(RawFile file) {
  char first[4] = {};
  file.read(first, std::min<std::int64_t>(sizeof first, file.size()), 0);
  const int version = first[3];
  if (version != 1 && version != 2 && version != 5)
    refuse("{}: begins with 'CDF' and the version {}. Expected 1, 2 or 5. Is the file damaged?", file.path(), version);
  std::vector<ArrayInfo> arrays;
  std::vector<std::vector<std::string>> dimensions;
  for (auto& v : ClassicHeader(file, version).parse()) {
    arrays.push_back(std::move(v.info));
    dimensions.push_back(std::move(v.dimensions));
  }
  return std::make_unique<const ListedArrays>(file.path(), fmt::format("NetCDF (CDF-{})", version), std::move(arrays),
                                              std::move(dimensions));
}

}  // namespace keelson::detail
