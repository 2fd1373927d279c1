#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_convert.hpp"
#include "engine/data/arrays/detail/array_forms.hpp"

namespace keelson::detail {
namespace {

/// The number of the NetCDF library that stands where nothing was written.
double default_fill(hdf5::Type type) {
  using hdf5::Type;
  switch (type) {
    case Type::i16:
      return -32767;
    case Type::u16:
      return 65535;
    case Type::i32:
      return -2147483647;
    case Type::u32:
      return 4294967295;
    case Type::i64:
      return -9223372036854775806.0;
    case Type::u64:
      return 18446744073709551614.0;
    case Type::f32:
    case Type::f64:
      return 0x1.ep+122;  // 9.96921e36
    default:
      return NAN;
  }
}

}  // namespace

void refuse_name(const ArrayFile& file, const std::string& name) {
  auto names = file.names();
  const std::size_t held = names.size();
  constexpr std::size_t shown = 20;
  names.resize(std::min(held, shown));
  refuse("{}: has no array '{}'. The file holds {}{}", file.path(), name,
         names.empty() ? "no arrays" : fmt::format("'{}'", fmt::join(names, "', '")),
         held > shown ? fmt::format(" and {} more", held - shown) : "");
}

std::size_t ListedArrays::find(const std::string& name) const {
  return static_cast<std::size_t>(std::ranges::find(arrays_, name, &ArrayInfo::name) - arrays_.begin());
}

std::vector<std::string> ListedArrays::names() const {
  std::vector<std::string> names;
  for (const auto& a : arrays_) names.push_back(a.name);
  return names;
}

bool ListedArrays::has(const std::string& name) const { return find(name) < arrays_.size(); }

ArrayInfo ListedArrays::info(const std::string& name) const {
  if (!has(name)) refuse_name(*this, name);
  return arrays_[find(name)];
}

std::vector<std::string> ListedArrays::dimensions(const std::string& name) const {
  if (!has(name)) refuse_name(*this, name);
  return dimensions_.empty() ? std::vector<std::string>{} : dimensions_[find(name)];
}

ArrayPacking packing_of(const std::string& where, hdf5::Type type, bool is_unsigned, const NumbersOf& numbers) {
  ArrayPacking packing{.is_unsigned = is_unsigned};
  const auto number = [&](const char* name, double& to) {
    const auto found = numbers(name);
    if (!found) return;
    if (found->size() != 1 || !std::isfinite(found->front()))
      refuse("{}: the attribute '{}' holds {}. Expected one finite number", where, name, fmt::join(*found, ", "));
    to = found->front();
  };
  number("scale_factor", packing.scale);
  number("add_offset", packing.offset);
  bool has_missing = false;
  for (const char* name : {"_FillValue", "missing_value"})
    if (const auto found = numbers(name)) {
      has_missing = true;
      packing.missing.insert(packing.missing.end(), found->begin(), found->end());
    }
  if (!has_missing) packing.missing.push_back(default_fill(type));
  std::erase_if(packing.missing, [](double m) { return std::isnan(m); });  // NaN is a missing value in any case
  std::ranges::sort(packing.missing);
  const auto same = std::ranges::unique(packing.missing);
  packing.missing.erase(same.begin(), same.end());
  return packing;
}

std::int64_t bytes_of_shape(const std::string& where, const hdf5::Dims& shape, std::int64_t bytes) {
  std::int64_t product = bytes;
  bool fits = true;
  for (const auto extent : shape) fits = fits && extent >= 0 && !__builtin_mul_overflow(product, extent, &product);
  if (!fits)
    refuse("{}: has the shape {}, of more than 2^63 bytes. Is the file damaged?", where, hdf5::to_string(shape));
  return product;
}

}  // namespace keelson::detail
