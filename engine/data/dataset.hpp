#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/field_encoding.hpp"
#include "engine/data/hdf5/read_cost.hpp"
#include "engine/data/sample_transform.hpp"
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

/// Which sample is wanted, and in which form.
struct SampleRequest {
  SampleId id;                                 ///< of the sample; seed and epoch are those of random transforms
  const SampleTransform* transform = nullptr;  ///< changes the sample; null: none
  /// One entry per field, as in FieldRows: only these rows are written, one after the other; empty: all fields as
  /// wholes.
  std::span<const std::optional<Rows>> rows = {};
  /// Not null: the field of Dataset::encoding(transform) is wanted in its encoded form, and what says how to decode the
  /// sample is written here: FieldEncoding::parameter_bytes bytes. Only together with empty `rows`.
  void* encoding = nullptr;
};

/// Samples by index, decoded for the network. Several threads call the reading functions at the same time.
///
/// A data set of small samples overrides read() alone. A data set of large samples overrides read_sample(), too, if it
/// can read a part of the rows, or transform while it decodes, and the functions of the stored form, if the files have
/// fewer bytes than the fields.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples.
  virtual std::int64_t size() const = 0;
  /// The arrays of each sample, in the order in which read() writes them.
  virtual const std::vector<Field>& fields() const = 0;
  /// Reads and decodes sample `index` into `dst`, one pointer per field. Fields of rank >= 3 are written channels-last
  /// (D, H, W, C), the order on disk; others row-major. Throws InputError, naming the file, for data that cannot be
  /// read, are NaN or infinite.
  virtual void read(std::int64_t index, void* const* dst) const = 0;
  /// The same for a sample in the wanted form. This default calls read(), then SampleTransform::apply(), and copies the
  /// rows; for rows it needs memory for a whole sample. Throws as read().
  virtual void read_sample(const SampleRequest& request, void* const* dst) const;
  /// The field that can be delivered encoded if samples are changed by `transform` (null: no transform). Null if there
  /// is none, or if only the host can apply the transform. Valid as long as the data set.
  virtual const FieldEncoding* encoding(const SampleTransform* transform) const;

  // ---- The stored form of a sample, which caches keep, ranks send to each other (SampleCache), and reading threads
  // ---- hand to decoding threads (Loader)

  /// Whether the stored form is another one than the fields: reading and decoding are then two pieces of work. This
  /// default: false.
  virtual bool has_stored_form() const;
  /// Bytes of the stored form, of every sample. This default: those of all fields.
  virtual std::int64_t stored_bytes() const;
  /// Reads the stored form. This default writes the fields as read() does, one after the other. A data set whose files
  /// have smaller elements overrides the four functions: the stored form is then what the files hold. Throws as read()
  /// for data that cannot be read; numbers that are not finite may be found by decode() alone.
  virtual void read_stored(std::int64_t index, std::byte* dst) const;
  /// As read_sample(), but from the stored form.
  virtual void decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const;

  /// The number of the file that holds a sample, among the files of the data set in the order of their names; -1: not
  /// known. Tells which rank has a copy of the file on its disk (FileCopies).
  virtual std::int64_t file_number_of(std::int64_t /*index*/) const { return -1; }

  /// The path of the file that holds a sample; empty: not known, or no file.
  virtual std::string file_of(std::int64_t /*index*/) const { return ""; }
  /// The number of a sample, from 0, in its file, or in all files together where file_of() does not know the file.
  virtual std::int64_t row_of(std::int64_t index) const { return index; }

  virtual std::string describe() const = 0;  ///< "1000 samples of 4x32x32x32 in 1000 files under data/train"
  /// What reading a sample takes from its file, by the chunks of the first file. No value: the files are not HDF5.
  virtual std::optional<ReadCost> read_cost() const;
  /// A hash that distinguishes data sets without reading all data: of names (without the folder), sizes, shapes,
  /// targets, and the way samples are decoded. Ranks with different hashes must not train together. This default covers
  /// only the number of samples and the fields.
  virtual std::uint64_t digest() const;

 protected:
  /// Writes these rows of each field, of which `read_whole(dst)` writes all rows. Without rows: all of them.
  void take_rows(std::span<const std::optional<Rows>> rows, const std::function<void(void* const* dst)>& read_whole,
                 void* const* dst) const;
};

}  // namespace keelson
