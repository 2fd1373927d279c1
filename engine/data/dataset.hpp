#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/hdf5/read_cost.hpp"
#include "engine/data/sample_transform.hpp"
#include "engine/ops/decode_voxels.hpp"
#include "engine/tensor/rows.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson {

/// One array of a sample, as the network receives it. `shape` is logical without the batch: (C, D, H, W).
struct Field {
  std::string name;          ///< name of the graph input for this field: "x", "y"
  Shape shape;               ///< logical, without the batch
  DType dtype = DType::f32;  ///< type of each element

  /// The dimension of `shape` that counts rows, the first spatial one: D of (C, D, H, W), H of (H, W).
  int row_dim() const { return shape.rank() >= 3 ? 1 : 0; }
  /// The same with so many rows.
  Field with_rows(const Rows& rows) const;
  std::int64_t bytes() const { return shape.elements() * static_cast<std::int64_t>(size_of(dtype)); }  ///< of a sample
};

/// Which rows of each field are read (Field::row_dim): one entry per field; no value: all rows. Rows beyond the edges
/// of a field become zeros. Empty: all fields as wholes.
using FieldRows = std::vector<std::optional<Rows>>;

/// A field that a data set can deliver undecoded, in the 16-bit codes of its files, for a device that decodes them
/// (ops::DecodeVoxels). Codes need half the bytes of f32 for reading, copying and prefetching, and the host has no work
/// with them.
struct CodedField {
  std::size_t field = 0;               ///< index into Dataset::fields()
  std::int64_t stored_channels = 1;    ///< codes per voxel, which are contiguous
  std::vector<std::int32_t> channels;  ///< the stored channel of each channel of the field
  std::vector<float> table;            ///< (65536) value of each code
};

/// Samples by index, decoded for the network. Several threads call read() at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples.
  virtual std::int64_t size() const = 0;
  /// The arrays of each sample, in the order in which read() writes them.
  virtual const std::vector<Field>& fields() const = 0;
  /// Decodes sample `index` into `dst`, one pointer per field. Fields of rank >= 3 are written channels-last (D, H, W,
  /// C), the order on disk; others row-major. Throws InputError, naming the file, for data that cannot be read, are NaN
  /// or infinite.
  virtual void read(std::int64_t index, void* const* dst) const = 0;
  /// Decodes sample `id.index` and transforms it. This default calls read(), then SampleTransform::apply(). A data set
  /// of large fields that knows the transform overrides this function and does both in one pass.
  virtual void read_transformed(const SampleId& id, const SampleTransform& transform, void* const* dst) const;
  /// As read_transformed(), or as read() if `transform` is null, but writes only these rows of each field, one after
  /// the other. This default reads the whole sample into memory of its own. A data set whose files have the rows in
  /// this order overrides the function.
  virtual void read_rows(const SampleId& id, const SampleTransform* transform, const FieldRows& rows,
                         void* const* dst) const;
  /// The field that read_codes() leaves undecoded if samples are changed by `transform` (null: no transform). Null if
  /// the files hold no codes, or if only the host can apply the transform. Valid as long as the data set.
  virtual const CodedField* coded(const SampleTransform* transform) const;
  /// As read_transformed(), or as read() if `transform` is null, except for the coded field: `dst` gets its codes (D,
  /// H, W, stored_channels), and the result says how to decode them. Throws as read(), for the same data. May be called
  /// only if coded(transform) is not null.
  virtual ops::VoxelSample read_codes(const SampleId& id, const SampleTransform* transform, void* const* dst) const;

  // ---- the stored form of a sample, which caches keep and ranks send to each other (SampleCache)

  /// Bytes of the stored form, of every sample. This default: those of all fields.
  virtual std::int64_t stored_bytes() const;
  /// Reads the stored form. This default writes the fields as read() does, one after the other. A data set whose files
  /// have smaller elements overrides the three functions: the stored form is then what the files hold. Throws as read()
  /// for data that cannot be read; numbers that are not finite may be found by decode() alone.
  virtual void read_stored(std::int64_t index, std::byte* dst) const;
  /// As read_rows(), or without rows as read_transformed() or read(), but from the stored form.
  virtual void decode(const SampleId& id, const SampleTransform* transform, const FieldRows& rows,
                      const std::byte* stored, void* const* dst) const;
  /// As read_codes(), but from the stored form.
  virtual ops::VoxelSample decode_to_codes(const SampleId& id, const SampleTransform* transform,
                                           const std::byte* stored, void* const* dst) const;

  virtual std::string describe() const = 0;  ///< "1000 samples of 4x32x32x32 in 1000 files under data/train"
  /// What reading a sample takes from its file, by the chunks of the first file. No value: the files are not HDF5.
  virtual std::optional<ReadCost> read_cost() const;
  /// A hash that distinguishes data sets without reading all data: of names (without the folder), sizes, shapes,
  /// targets, and the way samples are decoded. Ranks with different hashes must not train together. This default covers
  /// only the number of samples and the fields.
  virtual std::uint64_t digest() const;

 protected:
  /// Writes these rows of each field, of which `read_whole(dst)` writes all rows.
  void take_rows(const FieldRows& rows, const std::function<void(void* const* dst)>& read_whole,
                 void* const* dst) const;
};

}  // namespace keelson
