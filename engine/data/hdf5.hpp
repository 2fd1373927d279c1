#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Reading and writing HDF5 files (library 1.10 or newer) without its headers. HDF5 is not thread-safe, so every call
/// here takes one process-wide lock; any thread may call. What can be read without the library, and so without the
/// lock, says DatasetInfo::raw_offset.
///
/// Errors name the file, the object and HDF5's innermost reason. A file that is missing, not HDF5, truncated or lacks
/// an object, and data that cannot be read: InputError. What fails while writing (a full disk): Error.
namespace keelson::hdf5 {

/// Extents of a data set, slowest first.
using Dims = std::vector<std::int64_t>;

namespace detail {
class LinkPolicy;
Dims shape_of_source(const std::string& file, const std::string& folder, const std::string& object, int depth);
}  // namespace detail

/// Element types on disk, whatever their byte order. f16 and `other` (strings, compounds, ...) have no C++ type here.
enum class Type : std::uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64, other };

std::string_view to_string(Type type);  ///< as NumPy says: "int16", "float32"

/// The type on disk of a C++ type.
template <class T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>)
    return Type::f32;
  else if constexpr (std::is_same_v<T, double>)
    return Type::f64;
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>,
                  "an element type that HDF5 files of ours do not hold");
    constexpr Type types[] = {Type::i8, Type::u8, Type::i16, Type::u16, Type::i32, Type::u32, Type::i64, Type::u64};
    constexpr int log2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return types[2 * log2 + (std::is_unsigned_v<T> ? 1 : 0)];
  }
}

std::string to_string(const Dims& dims);  ///< "(128, 128, 128, 4)"; "scalar" without dimensions

/// What a file says of one data set.
struct DatasetInfo {
  std::string name;         ///< as asked for
  Dims shape;               ///< empty for a scalar
  Type type = Type::other;  ///< of each element
  std::string type_name;    ///< for messages: "int16", "big-endian float32", "string"
  /// Where in `file` the elements lie just as in memory (contiguous, unfiltered, native); -1 if not so.
  std::int64_t raw_offset = -1;
  std::string file;  ///< that holds the elements: the one that was opened, or where a link leads

  /// Product of the extents.
  std::int64_t elements() const;
};

/// An open file. Closes when destroyed; a writer calls close() first, which reports what the destructor cannot.
class File {
 public:
  /// For reading. External links and virtual data sets are followed to regular files in `folder` or below (empty: the
  /// file's own) and refused elsewhere; external storage is refused.
  static File open(const std::string& path, const std::string& folder = "");
  /// For writing; replaces what is there. All of it is held in memory until close() writes the file in one go, so that
  /// failing to write (a full disk) is an Error and nothing worse.
  static File create(const std::string& path);
  /// The same without a file on the disk, for what is read again and never closed. `name`: for messages.
  static File in_memory(const std::string& name);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// As given.
  const std::string& path() const { return path_; }
  bool has(const std::string& object) const;  ///< a dataset or group of this name: "x", "/parameters/conv1/weights"
  std::vector<std::string> list(const std::string& group = "/") const;  ///< names of its members, sorted
  /// Throws InputError where there is no such data set.
  DatasetInfo info(const std::string& dataset) const;
  void require_written(const std::string& dataset) const;  ///< throws InputError for elements that never were

  /// Reads all elements in row-major order, converted by HDF5 to T (integers out of T's range are clipped).
  template <class T>
  std::vector<T> read(const std::string& dataset) const {
    std::vector<T> v(static_cast<std::size_t>(info(dataset).elements()));
    read_as(dataset, type_of<T>(), v.data(), nullptr, nullptr, static_cast<std::int64_t>(v.size()));
    return v;
  }
  /// The same into `dst`, which has room for exactly `elements`.
  template <class T>
  void read(const std::string& dataset, T* dst, std::int64_t elements) const {
    read_as(dataset, type_of<T>(), dst, nullptr, nullptr, elements);
  }
  /// The box of `count` elements from `offset` on, one number of each per dimension.
  template <class T>
  void read_box(const std::string& dataset, const Dims& offset, const Dims& count, T* dst) const {
    read_as(dataset, type_of<T>(), dst, &offset, &count, -1);
  }

  /// Makes a contiguous dataset, and the groups that its name goes through, and writes it. No time stamps: same data,
  /// same file.
  template <class T>
  void write(const std::string& dataset, const T* src, const Dims& shape) {
    make_dataset(dataset, type_of<T>(), shape);
    write_as(dataset, type_of<T>(), src, nullptr, nullptr);
  }
  /// The same for a list of texts (UTF-8, of any length; h5py reads bytes, or str with .asstr()).
  void write(const std::string& dataset, const std::vector<std::string>& texts);
  /// Makes a dataset to be written in boxes; what is never written reads as zero.
  template <class T>
  void make_dataset(const std::string& dataset, const Dims& shape) {
    make_dataset(dataset, type_of<T>(), shape);
  }
  /// Writes a box of a data set that make_dataset() has made.
  template <class T>
  void write_box(const std::string& dataset, const Dims& offset, const Dims& count, const T* src) {
    write_as(dataset, type_of<T>(), src, &offset, &count);
  }
  void make_group(const std::string& group);  ///< with those above it; no error if it exists

  /// Attributes of a file ("/"), group or dataset. Text is UTF-8 (h5py reads it as str). Setting replaces. Throws
  /// InputError where attributes cannot be read.
  bool has_attribute(const std::string& object, const std::string& name) const;
  /// A text.
  void set_attribute(const std::string& object, const std::string& name, std::string_view text);
  /// A text.
  void set_attribute(const std::string& object, const std::string& name, const char* text) {
    set_attribute(object, name, std::string_view(text));
  }
  /// A list of texts.
  void set_attribute(const std::string& object, const std::string& name, const std::vector<std::string>& texts);
  /// A number, of the type on disk that T has; bool as u8.
  template <class T>
    requires std::is_arithmetic_v<T>
  void set_attribute(const std::string& object, const std::string& name, T number) {
    if constexpr (std::is_same_v<T, bool>)
      set_numbers(object, name, Type::u8, &number, 1, true);
    else
      set_numbers(object, name, type_of<T>(), &number, 1, true);
  }
  /// A list of numbers.
  template <class T>
    requires std::is_arithmetic_v<T>
  void set_attribute(const std::string& object, const std::string& name, const std::vector<T>& numbers) {
    set_numbers(object, name, type_of<T>(), numbers.data(), static_cast<std::int64_t>(numbers.size()), false);
  }
  /// Throws InputError where the attribute is absent or no text.
  std::string text_attribute(const std::string& object, const std::string& name) const;
  /// Throws InputError where the attribute is absent or no list of texts.
  std::vector<std::string> texts_attribute(const std::string& object, const std::string& name) const;
  /// All numbers, converted to T. Throws InputError where the attribute is absent or holds no numbers.
  template <class T>
  std::vector<T> numbers_attribute(const std::string& object, const std::string& name) const {
    std::vector<T> v(static_cast<std::size_t>(attribute_elements(object, name)));
    get_numbers(object, name, type_of<T>(), v.data());
    return v;
  }
  /// The one number. Throws InputError where there is not exactly one.
  template <class T>
  T attribute(const std::string& object, const std::string& name) const {
    const auto v = numbers_attribute<T>(object, name);
    require_single(object, name, v.size());
    return v[0];
  }

  /// Writes out what is buffered and closes. Throws Error if that fails. `sync`: also waits until the disk has it.
  /// `progress`, if not empty, is called after each part (16 MiB) that is written, and with `sync` on the disk.
  void close(bool sync = false, const std::function<void()>& progress = {});

 private:
  File(std::string path, std::int64_t id, bool writing, std::shared_ptr<detail::LinkPolicy> links);
  void discard() noexcept;
  void make_parent(const std::string& dataset);
  void make_dataset(const std::string& dataset, Type type, const Dims& shape);
  void read_as(const std::string& dataset, Type type, void* dst, const Dims* offset, const Dims* count,
               std::int64_t elements) const;
  void write_as(const std::string& dataset, Type type, const void* src, const Dims* offset, const Dims* count);
  void set_numbers(const std::string& object, const std::string& name, Type type, const void* src, std::int64_t n,
                   bool scalar);
  void set_texts(const std::string& object, const std::string& name, std::span<const std::string_view> texts,
                 bool scalar);
  std::int64_t attribute_elements(const std::string& object, const std::string& name) const;
  void get_numbers(const std::string& object, const std::string& name, Type type, void* dst) const;
  void require_single(const std::string& object, const std::string& name, std::size_t found) const;

  std::int64_t access() const;  ///< HDF5's list (hid_t) for opening objects
  std::int64_t open_dataset(const std::string& name) const;
  std::int64_t open_object(const std::string& name) const;
  friend Dims detail::shape_of_source(const std::string&, const std::string&, const std::string&, int);
  Dims checked_shape(const std::string& dataset, int depth) const;

  std::string path_;
  std::int64_t id_ = -1;                       ///< HDF5's handle (hid_t); -1 when closed
  std::shared_ptr<detail::LinkPolicy> links_;  ///< of a file open for reading
  bool writing_ = false;
};

}  // namespace keelson::hdf5
