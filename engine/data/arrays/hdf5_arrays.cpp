#include <algorithm>
#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_convert.hpp"
#include "engine/data/arrays/detail/array_forms.hpp"

namespace keelson::detail {
namespace {

/// HDF5 and netCDF-4, which is HDF5 with conventions of its own.
class Hdf5Arrays final : public ArrayFile {
 public:
  Hdf5Arrays(hdf5::File file, bool is_netcdf)
      : ArrayFile(file.path(), is_netcdf ? "NetCDF (netCDF-4)" : "HDF5"),
        file_(std::move(file)),
        is_netcdf_(is_netcdf) {}

  std::vector<std::string> names() const override { return file_.dataset_names(); }
  bool has(const std::string& name) const override { return file_.has(name); }
  std::vector<std::string> dimensions(const std::string& name) const override { return file_.dimension_names(name); }
  ArrayInfo info(const std::string& name) const override {
    if (!has(name)) refuse_name(*this, name);
    const hdf5::DatasetInfo found = file_.info(name);
    ArrayInfo array{.name = name,
                    .shape = found.shape,
                    .type = found.type,
                    .type_name = found.type_name,
                    .file = found.file,
                    .begin = found.raw_offset,
                    .dataset = found};
    if (is_netcdf_ && array.is_numeric()) array.packing = packing(array);
    return array;
  }

 private:
  ArrayPacking packing(const ArrayInfo& array) const {
    const bool is_unsigned =
        file_.has_attribute(array.name, "_Unsigned") && says_unsigned(file_.text_attribute(array.name, "_Unsigned"));
    return packing_of(fmt::format("{}: '{}'", path(), array.name), array.type, is_unsigned,
                      [&](const std::string& name) -> std::optional<std::vector<double>> {
                        if (!file_.has_attribute(array.name, name)) return std::nullopt;
                        return file_.numbers_attribute<double>(array.name, name);
                      });
  }

  template <class T>
  void read_as(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count, void* dst) const {
    if (array.shape.empty())
      file_.read(array.name, static_cast<T*>(dst), 1);
    else
      file_.read_box(array.name, offset, count, static_cast<T*>(dst));
  }
  void read_by_library(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count, hdf5::Type type,
                       void* dst) const override {
    using hdf5::Type;
    switch (type) {
      case Type::i8:
        return read_as<std::int8_t>(array, offset, count, dst);
      case Type::u8:
        return read_as<std::uint8_t>(array, offset, count, dst);
      case Type::i16:
        return read_as<std::int16_t>(array, offset, count, dst);
      case Type::u16:
        return read_as<std::uint16_t>(array, offset, count, dst);
      case Type::i32:
        return read_as<std::int32_t>(array, offset, count, dst);
      case Type::u32:
        return read_as<std::uint32_t>(array, offset, count, dst);
      case Type::i64:
        return read_as<std::int64_t>(array, offset, count, dst);
      case Type::u64:
        return read_as<std::uint64_t>(array, offset, count, dst);
      case Type::f32:
        return read_as<float>(array, offset, count, dst);
      case Type::f64:
        return read_as<double>(array, offset, count, dst);
      case Type::f16:
      case Type::other:
        break;
    }
    fail("{}: internal error: '{}' cannot be read as {}", path(), array.name, hdf5::to_string(type));
  }

  hdf5::File file_;
  bool is_netcdf_;
};

}  // namespace

std::unique_ptr<const ArrayFile> open_hdf5_arrays(const std::string& path, const std::string& folder) {
  auto file = hdf5::File::open(path, folder);
  const bool is_netcdf = netcdf_form().has_name(path) || file.has_attribute("/", "_NCProperties");
  return std::make_unique<const Hdf5Arrays>(std::move(file), is_netcdf);
}

}  // namespace keelson::detail
