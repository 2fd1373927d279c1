#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/arrays/array_file.hpp"

/// The forms of ArrayFile. All functions throw InputError, naming the file, for files that are damaged.
namespace keelson::detail {

std::unique_ptr<const ArrayFile> open_hdf5_arrays(const std::string& path,
                                                  const std::string& folder);  ///< and netCDF-4
std::unique_ptr<const ArrayFile> open_netcdf_classic(RawFile file);
std::unique_ptr<const ArrayFile> open_npy(RawFile file);
std::unique_ptr<const ArrayFile> open_npz(RawFile file);

/// A file whose header has told all about its arrays.
class ListedArrays : public ArrayFile {
 public:
  /// `dimensions`: the names of each array's dimensions, of NetCDF; else empty.
  ListedArrays(std::string path, std::string form, std::vector<ArrayInfo> arrays,
               std::vector<std::vector<std::string>> dimensions = {})
      : ArrayFile(std::move(path), std::move(form)), arrays_(std::move(arrays)), dimensions_(std::move(dimensions)) {}
  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override;
  ArrayInfo info(const std::string& name) const override;
  std::vector<std::string> dimensions(const std::string& name) const override;

 private:
  std::size_t find(const std::string& name) const;  ///< the number of arrays, if there is none of this name

  std::vector<ArrayInfo> arrays_;
  std::vector<std::vector<std::string>> dimensions_;
};

/// Throws InputError for a name that the file does not have.
[[noreturn]] void refuse_name(const ArrayFile& file, const std::string& name);

/// The numbers of an attribute; no value if there is no such attribute.
using NumbersOf = std::function<std::optional<std::vector<double>>(const std::string& attribute)>;
/// Packing by the conventions of NetCDF. Without `_FillValue`, the numbers with which the NetCDF library fills what is
/// never written stand for missing values (except in arrays of bytes). `is_unsigned`: says_unsigned(). `where`: for
/// messages.
ArrayPacking packing_of(const std::string& where, hdf5::Type type, bool is_unsigned, const NumbersOf& numbers);

/// Whether this text of the attribute `_Unsigned` makes signed integers unsigned. Others, such as "false", do nothing.
inline bool says_unsigned(const std::string& text) { return text == "true" || text == "True"; }

/// Product of the extents and `bytes`. Throws InputError, naming `where`, if it does not fit 63 bits.
std::int64_t bytes_of_shape(const std::string& where, const hdf5::Dims& shape, std::int64_t bytes);

/// The array that the bytes of a .npy file hold. `first`: the file's first bytes, with the whole header if they are
/// npy_header_limit or more; `size`: bytes of the whole file. `begin` of the result counts from the first byte.
ArrayInfo parse_npy(const std::string& where, std::span<const char> first, std::int64_t size);
inline constexpr std::int64_t npy_header_limit = 1 << 16;

}  // namespace keelson::detail
