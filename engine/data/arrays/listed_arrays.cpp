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

/// Whether an element of the type can have exactly this value.
bool holds_exactly(hdf5::Type type, double value) {
  using hdf5::Type;
  if (type == Type::f64 || std::isnan(value)) return true;
  if (type == Type::f32) return static_cast<double>(static_cast<float>(value)) == value;
  const bool is_signed = type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
  const double above = std::ldexp(1.0, 8 * static_cast<int>(hdf5::size_of(type)) - (is_signed ? 1 : 0));
  return value == std::floor(value) && value < above && value >= (is_signed ? -above : 0);
}

/// The range of valid numbers, as netCDF4-python takes it: `valid_range`, or else `valid_min` and `valid_max`. An
/// attribute that is no number of the elements' type does not count, since programs disagree about its meaning (the
/// range of the packed or of the unpacked numbers).
void find_valid_range(hdf5::Type type, const NumbersOf& numbers, ArrayPacking& packing) {
  const auto found = [&](const char* name, std::size_t count) -> std::vector<double> {
    std::optional<std::vector<double>> values;
    try {
      values = numbers(name);
    } catch (const InputError&) {  // a text
    }
    const bool counts = values && values->size() == count &&
                        std::ranges::all_of(*values, [&](double v) { return holds_exactly(type, v); });
    return counts ? *values : std::vector<double>{};
  };
  const auto bound = [&](double value, double& to) {
    if (std::isnan(value)) return;
    to = packing.is_unsigned && value < 0 ? value + std::ldexp(1.0, 8 * static_cast<int>(hdf5::size_of(type))) : value;
  };
  if (const auto range = found("valid_range", 2); !range.empty()) {
    bound(range[0], packing.least);
    bound(range[1], packing.most);
    return;
  }
  if (const auto least = found("valid_min", 1); !least.empty()) bound(least[0], packing.least);
  if (const auto most = found("valid_max", 1); !most.empty()) bound(most[0], packing.most);
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
  const auto fill = numbers("_FillValue"), missing = numbers("missing_value");
  packing.missing = fill.value_or(std::vector{default_fill(type)});
  if (missing) packing.missing.insert(packing.missing.end(), missing->begin(), missing->end());
  std::erase_if(packing.missing, [](double m) { return std::isnan(m); });  // NaN is a missing value in any case
  std::ranges::sort(packing.missing);
  const auto same = std::ranges::unique(packing.missing);
  packing.missing.erase(same.begin(), same.end());
  find_valid_range(type, numbers, packing);
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
