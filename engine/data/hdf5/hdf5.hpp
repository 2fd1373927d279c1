#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Reading and writing HDF5 files (library 1.10 or newer) without its headers. HDF5 is not thread-safe, so calls here
/// take one process-wide lock; any thread may call. Some elements are read without the library, and so without the
/// lock: those at DatasetInfo::raw_offset, by the caller; and those in chunks, by read() and read_box(), if the chunks
/// have no other filters than deflate, shuffle and fletcher32. The calling thread then decompresses the chunks. Only
/// the first read of such a data set takes the lock, to learn where the chunks lie (with HDF5 1.10.5 or newer).
///
/// Errors name the file, the object and HDF5's innermost reason. InputError: a file is missing, is not HDF5, is
/// truncated or lacks an object, or data cannot be read. Error: writing fails (a full disk).
namespace keelson::hdf5 {

/// Extents of a data set, slowest first.
using Dims = std::vector<std::int64_t>;

namespace detail {
class ChunkedData;
class ChunkedDataOfFile;
class LinkPolicy;
class Rechunker;
Dims shape_of_source(const std::string& file, const std::string& folder, const std::string& object, int depth);
}  // namespace detail

/// Element types on disk, in any byte order. f16 and `other` (strings, compounds, ...) have no C++ type here.
enum class Type : std::uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64, other };

std::string_view to_string(Type type);  ///< NumPy's name: "int16", "float32"
std::int64_t size_of(Type type);        ///< bytes of an element; 0 for `other`

/// The type on disk of a C++ type.
template <class T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>)
    return Type::f32;
  else if constexpr (std::is_same_v<T, double>)
    return Type::f64;
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>,
                  "an element type that Keelson's HDF5 files do not have");
    constexpr Type types[] = {Type::i8, Type::u8, Type::i16, Type::u16, Type::i32, Type::u32, Type::i64, Type::u64};
    constexpr int log2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return types[2 * log2 + (std::is_unsigned_v<T> ? 1 : 0)];
  }
}

std::string to_string(const Dims& dims);  ///< "(128, 128, 128, 4)"; "scalar" without dimensions

/// The facts about a data set in a file.
struct DatasetInfo {
  std::string name;         ///< the name that the caller gave
  Dims shape;               ///< empty for a scalar
  Type type = Type::other;  ///< type of each element
  std::string type_name;    ///< for messages: "int16", "big-endian float32", "string"
  /// Position in `file` at which the elements lie as in memory (contiguous, unfiltered, native); -1: they do not.
  std::int64_t raw_offset = -1;
  std::string file;       ///< the file with the elements: the opened file, or the target of a link
  Dims chunk;             ///< shape of a chunk; empty: the elements do not lie in chunks
  bool filtered = false;  ///< chunks are compressed, or changed by other filters: they are read as wholes

  /// Product of the extents.
  std::int64_t elements() const;
};

/// An open file. The destructor closes the file. A writer should call close() first, which reports errors.
class File {
 public:
  /// Opens a file for reading. External links and virtual data sets may lead to regular files in `folder` or below
  /// (empty: the file's folder); others are refused. External storage is refused.
  static File open(const std::string& path, const std::string& folder = "");
  /// Creates a file for writing; replaces an existing file. The whole file is kept in memory until close() writes it,
  /// so that a failure to write (a full disk) is only an Error.
  static File create(const std::string& path);
  /// The same without a file on disk, for data that are read again. Such a file is never written. `name`: for messages.
  static File in_memory(const std::string& name);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// The path as given.
  const std::string& path() const { return path_; }
  bool has(const std::string& object)
      const;  ///< whether there is a dataset or group of this name: "x", "/parameters/conv1/weights"
  /// Throws InputError if there is no such data set.
  DatasetInfo info(const std::string& dataset) const;
  /// The names of all data sets, without those behind external links: "x", "climate/data".
  std::vector<std::string> dataset_names() const;
  /// The names of a data set's dimensions, if it has HDF5's dimension scales, as netCDF-4 writes them; else none.
  std::vector<std::string> dimension_names(const std::string& dataset) const;
  void require_written(const std::string& dataset) const;  ///< throws InputError for elements that were never written

  /// Reads all elements in row-major order, converted by HDF5 to T (integers out of T's range are clipped).
  template <class T>
  std::vector<T> read(const std::string& dataset) const {
    std::vector<T> v(static_cast<std::size_t>(info(dataset).elements()));
    read_as(dataset, type_of<T>(), v.data(), nullptr, nullptr, static_cast<std::int64_t>(v.size()));
    return v;
  }
  /// The same into `dst`, which must have room for exactly `elements`.
  template <class T>
  void read(const std::string& dataset, T* dst, std::int64_t elements) const {
    read_as(dataset, type_of<T>(), dst, nullptr, nullptr, elements);
  }
  /// Reads the box of `count` elements that begins at `offset`; both have one number per dimension.
  template <class T>
  void read_box(const std::string& dataset, const Dims& offset, const Dims& count, T* dst) const {
    read_as(dataset, type_of<T>(), dst, &offset, &count, -1);
  }

  /// Makes a contiguous dataset, and the groups in its name, and writes it. There are no time stamps, so the same data
  /// give the same file.
  template <class T>
  void write(const std::string& dataset, const T* src, const Dims& shape) {
    make_dataset(dataset, type_of<T>(), shape);
    write_as(dataset, type_of<T>(), src, nullptr, nullptr);
  }
  /// The same for a list of texts (UTF-8, of any length; h5py reads bytes, or str with .asstr()).
  void write(const std::string& dataset, const std::vector<std::string>& texts);
  /// Makes a dataset to be written in boxes; elements that are never written are read as zero.
  template <class T>
  void make_dataset(const std::string& dataset, const Dims& shape) {
    make_dataset(dataset, type_of<T>(), shape);
  }
  /// The same, stored in chunks of this shape, which are compressed by gzip at `level` (0: not, to 9) after HDF5's
  /// shuffle. Images that are mostly zero take little room so.
  template <class T>
  void make_dataset(const std::string& dataset, const Dims& shape, const Dims& chunk, int level) {
    make_dataset(dataset, type_of<T>(), shape, chunk, level);
  }
  /// Writes a box of a data set that make_dataset() has made.
  template <class T>
  void write_box(const std::string& dataset, const Dims& offset, const Dims& count, const T* src) {
    write_as(dataset, type_of<T>(), src, &offset, &count);
  }
  void make_group(const std::string& group);  ///< with all groups above it; no error if it exists

  /// Attributes of a file ("/"), group or dataset. Text is UTF-8 (h5py reads it as str). Setting replaces an existing
  /// attribute. Throws InputError if attributes cannot be read.
  bool has_attribute(const std::string& object, const std::string& name) const;
  /// Sets a text.
  void set_attribute(const std::string& object, const std::string& name, std::string_view text);
  /// Sets a text.
  void set_attribute(const std::string& object, const std::string& name, const char* text) {
    set_attribute(object, name, std::string_view(text));
  }
  /// Sets a list of texts.
  void set_attribute(const std::string& object, const std::string& name, const std::vector<std::string>& texts);
  /// Sets a number of the type of T; bool as u8.
  template <class T>
    requires std::is_arithmetic_v<T>
  void set_attribute(const std::string& object, const std::string& name, T number) {
    if constexpr (std::is_same_v<T, bool>)
      set_numbers(object, name, Type::u8, &number, 1, true);
    else
      set_numbers(object, name, type_of<T>(), &number, 1, true);
  }
  /// Sets a list of numbers.
  template <class T>
    requires std::is_arithmetic_v<T>
  void set_attribute(const std::string& object, const std::string& name, const std::vector<T>& numbers) {
    set_numbers(object, name, type_of<T>(), numbers.data(), static_cast<std::int64_t>(numbers.size()), false);
  }
  /// The text of an attribute. Throws InputError if the attribute is absent or no text.
  std::string text_attribute(const std::string& object, const std::string& name) const;
  /// The texts of an attribute. Throws InputError if the attribute is absent or no list of texts.
  std::vector<std::string> texts_attribute(const std::string& object, const std::string& name) const;
  /// All numbers of an attribute, converted to T. Throws InputError if the attribute is absent or holds no numbers.
  template <class T>
  std::vector<T> numbers_attribute(const std::string& object, const std::string& name) const {
    std::vector<T> v(static_cast<std::size_t>(attribute_elements(object, name)));
    get_numbers(object, name, type_of<T>(), v.data());
    return v;
  }
  /// The number of an attribute. Throws InputError if it does not have exactly one number.
  template <class T>
  T attribute(const std::string& object, const std::string& name) const {
    const auto v = numbers_attribute<T>(object, name);
    require_single(object, name, v.size());
    return v[0];
  }

  /// Writes the file and closes it. Throws Error if that fails. `sync`: also waits until the data are on disk.
  /// `progress`, if not empty, is called after each part (16 MiB) that is written (with `sync`: that is on disk).
  void close(bool sync = false, const std::function<void()>& progress = {});

 private:
  File(std::string path, std::int64_t id, bool writing, std::shared_ptr<detail::LinkPolicy> links);
  void discard() noexcept;
  void make_parent(const std::string& dataset);
  void make_dataset(const std::string& dataset, Type type, const Dims& shape, const Dims& chunk = {}, int level = 0);
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

  std::int64_t access() const;  ///< HDF5's property list (hid_t) for opening objects
  std::int64_t open_dataset(const std::string& name) const;
  std::shared_ptr<const detail::ChunkedData> find_chunks(const std::string& name) const;
  std::int64_t open_object(const std::string& name) const;
  friend class detail::Rechunker;
  friend Dims detail::shape_of_source(const std::string&, const std::string&, const std::string&, int);
  Dims checked_shape(const std::string& dataset, int depth) const;

  std::string path_;
  std::int64_t id_ = -1;                                ///< HDF5's handle (hid_t); -1 when closed
  std::shared_ptr<detail::LinkPolicy> links_;           ///< policy of a file that is open for reading
  std::shared_ptr<detail::ChunkedDataOfFile> chunked_;  ///< of a file that is open for reading
  bool writing_ = false;
};

}  // namespace keelson::hdf5
