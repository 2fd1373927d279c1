#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/tables/detail/table_rows.hpp"

namespace keelson::detail {

/// A column of one row group.
struct ParquetColumn {
  std::int64_t group = 0;  ///< the row group
  std::string name;
};

/// Where the numbers of a column go: to values[first], values[first + stride], ...
struct StridedValues {
  std::vector<float>* values = nullptr;
  std::size_t first = 0, stride = 1;
};

/// A Parquet file, read by Apache Arrow. All functions throw InputError, naming the file, the row group and the column,
/// for damaged files.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;

  /// The names of the columns, without those in which pandas keeps an index that has no name (__index_level_0__).
  virtual std::vector<std::string> names() const = 0;
  virtual std::int64_t groups() const = 0;                     ///< number of row groups
  virtual std::int64_t rows(std::int64_t group) const = 0;     ///< of a row group
  virtual bool has_column(const std::string& name) const = 0;  ///< whether there is a column of this name
  /// Reads numbers. `values` grows to hold those of all rows. `missing` replaces nulls, NaN and infinity; no value:
  /// these are refused.
  virtual void read_numbers(const ParquetColumn& column, std::optional<float> missing,
                            const StridedValues& to) const = 0;
  /// Reads names of classes, as numbers.
  virtual void read_classes(const ParquetColumn& column, ClassNumbers& classes, const StridedValues& to) const = 0;

 protected:
  ParquetFile() = default;
};

/// Opens a file. Throws InputError, too, if Keelson was built without Arrow.
std::unique_ptr<const ParquetFile> open_parquet(const std::string& path);

}  // namespace keelson::detail
