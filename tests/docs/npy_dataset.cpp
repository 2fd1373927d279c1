#include "tests/docs/npy_dataset.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "engine/base/fnv1a.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson {

namespace {

/// The numbers of "'shape': (60000, 28, 28, 1)". Throws InputError naming the file.
std::vector<std::int64_t> shape_in(const std::string& header, const std::string& path) {
  const auto open = header.find('(', header.find("'shape'")), close = header.find(')', open);
  std::vector<std::int64_t> shape;
  for (auto at = open; at != std::string::npos && at < close;) {
    const auto end = header.find_first_of(",)", at + 1);
    const auto digits = header.find_first_not_of(' ', at + 1);
    if (digits < end) {
      const auto extent = parse_number<std::int64_t>(header.substr(digits, end - digits));
      if (!extent || *extent < 1) refuse("{}: the extents in its header '{}' are not above 0", path, header);
      shape.push_back(*extent);
    }
    at = end;
  }
  if (shape.empty()) refuse("{}: the header '{}' has no shape of at least one dimension", path, header);
  return shape;
}

}  // namespace

NpyFile::NpyFile(const std::string& path, DType dtype) : file_(path), dtype_(dtype) {
  unsigned char start[12];
  file_.read(start, sizeof start, 0);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    refuse("{}: is no array of NumPy's format: the file does not begin with \\x93NUMPY; write one with numpy.save",
           path);
  const bool is_short = start[6] == 1;  // version 1 has a length of 2 bytes, later versions of 4
  const std::int64_t length = start[8] + 256 * start[9] + (is_short ? 0 : 65536 * start[10] + 16777216LL * start[11]);
  begin_ = (is_short ? 10 : 12) + length;
  std::string header(static_cast<std::size_t>(length), ' ');
  file_.read(header.data(), length, begin_ - length);
  const std::string wanted = dtype == DType::s32 ? "<i4" : "<f4";
  if (header.find("'" + wanted + "'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos)
    refuse("{}: has the header '{}'; expected elements '{}' in C order: numpy.ascontiguousarray(a, '{}')", path, header,
           wanted, wanted);
  shape_ = shape_in(header, path);
  const std::int64_t bytes = shape_[0] * row_elements() * static_cast<std::int64_t>(size_of(dtype));
  if (file_.size() != begin_ + bytes)
    refuse("{}: has {} bytes; expected {}, for a header of {} and {} elements of 4 bytes", path, file_.size(),
           begin_ + bytes, begin_, bytes / 4);
}

std::int64_t NpyFile::row_elements() const {
  std::int64_t n = 1;
  for (std::size_t i = 1; i < shape_.size(); ++i) n *= shape_[i];
  return n;
}

void NpyFile::read_row(std::int64_t index, void* dst) const {
  const std::int64_t bytes = row_elements() * static_cast<std::int64_t>(size_of(dtype_));
  file_.read(dst, bytes, begin_ + index * bytes);
}

NpyDataset::NpyDataset(const std::string& folder)
    : images_(folder + "/images.npy", DType::f32), classes_(folder + "/classes.npy", DType::s32) {
  const auto& s = images_.shape();
  if (s.size() != 4) refuse("{}: has the shape ({}); expected (N, H, W, C)", images_.path(), fmt::join(s, ", "));
  if (classes_.shape() != std::vector{s[0]})
    refuse("{}: has the shape ({}); expected ({}), a class for each image of {}", classes_.path(),
           fmt::join(classes_.shape(), ", "), s[0], images_.path());
  fields_ = {{"x", {s[3], s[1], s[2]}}, {"y", {}, DType::s32}};  // shapes are logical: channels first
}

void NpyDataset::read(std::int64_t index, void* const* dst) const {
  images_.read_row(index, dst[0]);  // channels-last, as fields of rank 3 are written
  classes_.read_row(index, dst[1]);
  const auto* const x = static_cast<const float*>(dst[0]);
  for (std::int64_t i = 0; i < images_.row_elements(); ++i)
    if (!std::isfinite(x[i])) refuse("{}: element {} of image {} is {}", images_.path(), i, index, x[i]);
}

std::string NpyDataset::describe() const {
  return fmt::format("{} images of {} in {}", size(), to_string(fields_[0].shape), images_.path());
}

std::uint64_t NpyDataset::digest() const {
  const auto n = static_cast<std::size_t>(size());
  std::vector<std::int32_t> classes(n);
  for (std::size_t i = 0; i < n; ++i) classes_.read_row(static_cast<std::int64_t>(i), &classes[i]);
  return Digest().add(classes).add(Dataset::digest()).value();
}

}  // namespace keelson
