#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/files/find_files.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson {

/// How stored numbers become values, by the attributes of NetCDF's conventions: value = stored * scale + offset.
struct ArrayPacking {
  double scale = 1;             ///< `scale_factor`
  double offset = 0;            ///< `add_offset`
  std::vector<double> missing;  ///< stored numbers that stand for no value: `_FillValue`, `missing_value`
  /// Stored numbers below this one stand for no value, too: `valid_range`, `valid_min`.
  double least = -std::numeric_limits<double>::infinity();
  /// Stored numbers above this one stand for no value, too: `valid_range`, `valid_max`.
  double most = std::numeric_limits<double>::infinity();
  bool is_unsigned = false;  ///< `_Unsigned`: signed integers on disk are unsigned numbers
  friend bool operator==(const ArrayPacking&, const ArrayPacking&) = default;
};

/// The facts about an array in a file.
struct ArrayInfo {
  std::string name;                     ///< as the caller gave it
  hdf5::Dims shape;                     ///< slowest dimension first; empty: a single number
  hdf5::Type type = hdf5::Type::other;  ///< type of the stored elements
  std::string type_name;                ///< for messages: "int16", "big-endian float32", "text"
  ArrayPacking packing = {};            ///< what becomes of the stored elements
  /// The file in which the elements lie in the order of `shape`, so that they are read without a library and its lock.
  std::string file = {};
  std::int64_t begin = -1;  ///< position of the elements in `file`; -1: a library must read them
  /// Bytes from an index of the first dimension to the next; 0: the elements lie without gaps.
  std::int64_t stride = 0;
  bool swapped = false;                           ///< the bytes of each element are in the other order than in memory
  std::optional<hdf5::DatasetInfo> dataset = {};  ///< what HDF5 says about it, in an HDF5 file
  /// The file's content from `begin` on, if the file holds it compressed.
  std::shared_ptr<const std::vector<char>> content = {};

  /// Product of the extents.
  std::int64_t elements() const;
  /// Whether the elements can be read without a library.
  bool is_direct() const { return begin >= 0; }
  /// Whether the elements are numbers.
  bool is_numeric() const { return type != hdf5::Type::other; }
};

/// A file of named arrays, of any form that is read: HDF5, NetCDF (classic: CDF-1, CDF-2, CDF-5; and netCDF-4), NumPy's
/// .npy and .npz. A file whose name ends in .h5, .hdf5 or .he5 is HDF5; of others, the first bytes tell the form.
/// docs/file-formats.md says what is read.
///
/// Any thread may call. Only arrays that HDF5 must read (compressed ones, for example) wait for HDF5's lock.
class ArrayFile {
 public:
  /// Opens a file. Throws InputError for a file that is missing, damaged, or of another form; the message has the list
  /// of the forms that are read. `folder`: as in hdf5::File::open().
  /// `others`: further forms that the caller reads, for that list: ", or TFRecord (names with .tfrecord)".
  static std::unique_ptr<const ArrayFile> open(const std::string& path, const std::string& folder = "",
                                               const std::string& others = "");
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  /// The path as given.
  const std::string& path() const { return path_; }
  /// "HDF5", "NetCDF (CDF-2)", "NumPy (.npy)"
  const std::string& form() const { return form_; }
  /// The names of all arrays: "x", "climate/data". The array of a .npy file has the name of the file without ".npy".
  virtual std::vector<std::string> names() const = 0;
  /// Whether there is an array of this name.
  virtual bool has(const std::string& name) const = 0;
  /// Throws InputError if there is no array of this name.
  virtual ArrayInfo info(const std::string& name) const = 0;
  /// The names of an array's dimensions, of NetCDF: "time", "lat", "lon". Empty in other forms.
  virtual std::vector<std::string> dimensions(const std::string& name) const = 0;

  /// Reads the box of `count` elements that begins at `offset`; both have one number per dimension. T is float, double
  /// or std::int32_t. Elements are converted; missing ones become NaN. Throws InputError, naming the place: for
  /// elements that are no numbers, and, if T is std::int32_t, for missing values and for numbers that are not whole or
  /// out of range.
  template <class T>
  void read_box(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count, T* dst) const;
  /// Reads all elements, as read_box().
  template <class T>
  std::vector<T> read(const std::string& name) const {
    const ArrayInfo array = info(name);
    std::vector<T> values(static_cast<std::size_t>(array.elements()));
    read_box(array, hdf5::Dims(array.shape.size()), array.shape, values.data());
    return values;
  }

 protected:
  /// `form`: for messages.
  ArrayFile(std::string path, std::string form) : path_(std::move(path)), form_(std::move(form)) {}
  /// Reads elements that have no position in a file, as `type` of memory.
  virtual void read_by_library(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count,
                               hdf5::Type type, void* dst) const;

 private:
  template <class T>
  void read_run(const ArrayInfo& array, const RawFile* raw, std::int64_t at, std::int64_t first,
                const hdf5::Dims& offset, const hdf5::Dims& count, std::int64_t n, T* dst) const;
  template <class T>
  void convert(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count, const void* src,
               hdf5::Type type, std::int64_t first, std::int64_t n, T* dst) const;

  std::string path_, form_;
  mutable std::once_flag opened_;
  mutable std::optional<RawFile> raw_;  ///< the file itself, from the first reading on
};

/// Whether a file is HDF5, but not by its name netCDF-4: by the name, else by the signature that every HDF5 file has.
/// Throws InputError for a file that cannot be read.
bool is_hdf5_file(const std::string& path);

/// The place in an array of element i of a box, in row-major order.
hdf5::Dims place_in_box(const hdf5::Dims& offset, const hdf5::Dims& count, std::int64_t i);

FileForm netcdf_form();  ///< names that end in .nc, .nc3, .nc4, .cdf or .netcdf
FileForm numpy_form();   ///< names that end in .npy or .npz
/// The forms that ArrayFile reads.
std::vector<FileForm> array_forms();

}  // namespace keelson
