#include "engine/data/arrays/array_file.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_convert.hpp"
#include "engine/data/arrays/detail/array_forms.hpp"

namespace keelson {
namespace {

constexpr std::int64_t piece_bytes = 1 << 16;  // of stored elements, which stay in a cache until they are converted

constexpr const char* forms_read = "HDF5, NetCDF (classic or netCDF-4), or NumPy (.npy, .npz)";

bool has_ending(const std::string& path, std::initializer_list<const char*> endings) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(endings, ending) != endings.end();
}

/// What a file of another known form is, and how to bring it to a form that is read.
std::string advice_for(const std::string& first_bytes) {
  const auto begins = [&](std::string_view with) { return first_bytes.starts_with(with); };
  if (begins("GRIB")) return " It is GRIB: convert it with cdo -f nc4 copy, or grib_to_netcdf";
  if (begins(std::string_view("\x0e\x03\x13\x01", 4))) return " It is HDF4: convert it with h4toh5";
  if (begins("PAR1")) return " It is Parquet, a table";
  if (begins("\x1f\x8b")) return " It is compressed by gzip: decompress it with gunzip";
  if (begins("BZh") ||
      begins(std::string_view("\xfd"
                              "7zXZ",
                              5)) ||
      begins("\x28\xb5\x2f\xfd"))
    return " It is compressed as a whole: decompress it first";
  return "";
}

/// The bytes at the beginning; fewer if the file is shorter.
std::string first_bytes_of(const RawFile& file) {
  std::string bytes(static_cast<std::size_t>(std::min<std::int64_t>(8, file.size())), '\0');
  file.read(bytes.data(), std::ssize(bytes), 0);
  return bytes;
}

/// Whether HDF5's signature stands where the format allows: at 0, 512, 1024, 2048, ...
bool has_hdf5_signature(const RawFile& file) {
  const std::int64_t size = file.size();
  for (std::int64_t at = 0; at + 8 <= size; at = at == 0 ? 512 : 2 * at) {
    char bytes[8];
    file.read(bytes, sizeof bytes, at);
    if (std::memcmp(bytes, "\x89HDF\r\n\x1a\n", sizeof bytes) == 0) return true;
  }
  return false;
}

}  // namespace

std::int64_t ArrayInfo::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

hdf5::Dims place_in_box(const hdf5::Dims& offset, const hdf5::Dims& count, std::int64_t i) {
  hdf5::Dims place = offset;
  for (std::size_t d = count.size(); d-- > 0; i /= count[d]) place[d] += i % count[d];
  return place;
}

FileForm netcdf_form() {
  return {"NetCDF", "end in .nc",
          [](const std::string& path) { return has_ending(path, {".nc", ".nc3", ".nc4", ".cdf", ".netcdf"}); }};
}

FileForm numpy_form() {
  return {"NumPy", "end in .npy or .npz", [](const std::string& path) { return has_ending(path, {".npy", ".npz"}); }};
}

std::vector<FileForm> array_forms() { return {hdf5_form(), netcdf_form(), numpy_form()}; }

bool is_hdf5_file(const std::string& path) {
  return hdf5_form().has_name(path) || (!netcdf_form().has_name(path) && has_hdf5_signature(RawFile(path)));
}

std::unique_ptr<const ArrayFile> ArrayFile::open(const std::string& path, const std::string& folder,
                                                 const std::string& others) {
  if (hdf5_form().has_name(path)) return detail::open_hdf5_arrays(path, folder);  // opened once, by HDF5 alone
  RawFile file(path);
  const std::string first = first_bytes_of(file);
  if (first.starts_with("CDF")) return detail::open_netcdf_classic(std::move(file));
  if (first.starts_with("\x93NUMPY")) return detail::open_npy(std::move(file));
  if (first.starts_with("PK")) return detail::open_npz(std::move(file));
  if (has_hdf5_signature(file)) return detail::open_hdf5_arrays(path, folder);
  if (first.empty())
    refuse("{}: is empty (0 bytes). Expected arrays in {}{}; copy or make it again", path, forms_read, others);
  refuse("{}: does not begin as a file of a form that is read. Expected {}{}.{}", path, forms_read, others,
         advice_for(first));
}

void ArrayFile::read_by_library(const ArrayInfo& array, const hdf5::Dims& /*offset*/, const hdf5::Dims& /*count*/,
                                hdf5::Type /*type*/, void* /*dst*/) const {
  fail("{}: internal error: '{}' has no place in the file", path_, array.name);
}

/// Converts elements first ... first + n - 1 of a box.
template <class T>
void ArrayFile::convert(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count, const void* src,
                        hdf5::Type type, std::int64_t first, std::int64_t n, T* dst) const {
  const std::int64_t wrong = detail::convert_stored(src, type, array.packing, n, dst);
  if (wrong < 0) return;
  const auto* const element = static_cast<const char*>(src) + wrong * hdf5::size_of(type);
  const double value = detail::value_of(element, type, array.packing);
  refuse("{}: '{}' holds {} at {}. Expected whole numbers (int32)", path_, array.name,
         std::isnan(value) ? "no value (NaN or missing)" : fmt::format("{}", value),
         hdf5::to_string(place_in_box(offset, count, first + wrong)));
}

/// Reads `n` elements that lie one after the other from byte `at` on: the elements from `first` on of a box.
template <class T>
void ArrayFile::read_run(const ArrayInfo& array, const RawFile* raw, std::int64_t at, std::int64_t first,
                         const hdf5::Dims& offset, const hdf5::Dims& count, std::int64_t n, T* dst) const {
  const std::int64_t size = hdf5::size_of(array.type);
  const auto read = [&](void* to, std::int64_t bytes, std::int64_t from) {
    if (raw)
      raw->read(to, bytes, from);
    else
      std::memcpy(to, array.content->data() + from, static_cast<std::size_t>(bytes));
  };
  const bool is_plain = detail::is_plain<T>(array);
  if (is_plain && !array.swapped) return read(dst, n * size, at);
  alignas(64) thread_local char piece[piece_bytes];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t some = std::min(n - done, piece_bytes / size);
    void* const to = is_plain ? static_cast<void*>(dst + done) : piece;
    read(to, some * size, at + done * size);
    if (array.swapped) detail::swap_bytes(to, size, some);
    if (!is_plain) convert(array, offset, count, to, array.type, first + done, some, dst + done);
    done += some;
  }
}

template <class T>
void ArrayFile::read_box(const ArrayInfo& array, const hdf5::Dims& offset, const hdf5::Dims& count, T* dst) const {
  if (!array.is_numeric()) refuse("{}: '{}' holds {}. Expected numbers", path_, array.name, array.type_name);
  const std::size_t rank = array.shape.size();
  bool inside = offset.size() == rank && count.size() == rank;
  for (std::size_t d = 0; inside && d < rank; ++d)
    inside = offset[d] >= 0 && count[d] >= 0 && offset[d] <= array.shape[d] - count[d];
  if (!inside)
    fail("{}: '{}': the box of {} at {} does not lie in its shape {}", path_, array.name, hdf5::to_string(count),
         hdf5::to_string(offset), hdf5::to_string(array.shape));
  const std::int64_t n = std::accumulate(count.begin(), count.end(), std::int64_t{1}, std::multiplies<>());
  if (n == 0) return;
  if (!array.is_direct()) {
    if (detail::is_plain<T>(array)) return read_by_library(array, offset, count, array.type, dst);
    const auto type = array.type == hdf5::Type::f16 ? hdf5::Type::f32 : array.type;  // HDF5 has no f16 in memory
    std::vector<char> stored(static_cast<std::size_t>(n * hdf5::size_of(type)));
    read_by_library(array, offset, count, type, stored.data());
    return convert(array, offset, count, stored.data(), type, 0, n, dst);
  }
  const bool own = array.file == path_;
  std::optional<RawFile> other;
  if (own)
    std::call_once(opened_, [&] { raw_.emplace(path_); });
  else if (!array.content)
    other.emplace(array.file);
  const RawFile* const raw = array.content ? nullptr : own ? &*raw_ : &*other;

  hdf5::Dims strides(rank, hdf5::size_of(array.type));
  for (std::size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * array.shape[d];
  const bool gaps = rank > 0 && array.stride != 0 && array.stride != strides[0];
  if (gaps) strides[0] = array.stride;
  // Elements of the dimensions from `inner` on lie one after the other.
  std::size_t inner = rank;
  std::int64_t run = 1;
  while (inner > 0 && !(gaps && inner == 1)) {
    run *= count[--inner];
    if (count[inner] != array.shape[inner]) break;
  }
  const hdf5::Dims outer(count.begin(), count.begin() + static_cast<std::ptrdiff_t>(inner));
  for (std::int64_t i = 0; i < n; i += run) {
    hdf5::Dims place =
        place_in_box({offset.begin(), offset.begin() + static_cast<std::ptrdiff_t>(inner)}, outer, i / run);
    place.insert(place.end(), offset.begin() + static_cast<std::ptrdiff_t>(inner), offset.end());
    const std::int64_t at = std::inner_product(place.begin(), place.end(), strides.begin(), array.begin);
    read_run(array, raw, at, i, offset, count, run, dst + i);
  }
}

template void ArrayFile::read_box(const ArrayInfo&, const hdf5::Dims&, const hdf5::Dims&, float*) const;
template void ArrayFile::read_box(const ArrayInfo&, const hdf5::Dims&, const hdf5::Dims&, double*) const;
template void ArrayFile::read_box(const ArrayInfo&, const hdf5::Dims&, const hdf5::Dims&, std::int32_t*) const;

}  // namespace keelson
