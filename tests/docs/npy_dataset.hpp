#pragma once

#include <string>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/files/raw_file.hpp"

namespace keelson {

/// An array in NumPy's format (numpy.lib.format), versions 1 to 3: little-endian numbers in C order.
class NpyFile {
 public:
  /// Reads the header. Throws InputError, naming the file, for another format, and for elements that are not `dtype`.
  NpyFile(const std::string& path, DType dtype);
  const std::string& path() const { return file_.path(); }           ///< as given
  const std::vector<std::int64_t>& shape() const { return shape_; }  ///< extents, at least one
  /// Reads the elements [index, :, ...] into `dst`. Any thread.
  void read_row(std::int64_t index, void* dst) const;
  std::int64_t row_elements() const;  ///< elements of a row

 private:
  RawFile file_;
  DType dtype_;
  std::int64_t begin_ = 0;  ///< of the elements, in bytes
  std::vector<std::int64_t> shape_;
};

/// Images with classes, from the files images.npy, (N, H, W, C) float32, and classes.npy, (N) int32, of a folder. The
/// field "x" is an image, "y" its class.
class NpyDataset final : public Dataset {
 public:
  /// Throws InputError for files that are no such arrays, or of different numbers of samples.
  explicit NpyDataset(const std::string& folder);
  std::int64_t size() const override { return images_.shape()[0]; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override;
  std::string describe() const override;
  std::uint64_t digest() const override;

 private:
  NpyFile images_, classes_;
  std::vector<Field> fields_;
};

}  // namespace keelson
