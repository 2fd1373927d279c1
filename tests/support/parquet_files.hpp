#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Makes Parquet files with Apache Arrow, in builds that have it (KEELSON_HAVE_PARQUET).
namespace keelson::testing {

/// A column of a table, with values as text; no value: a null.
struct ColumnText {
  std::string name;
  /// As Arrow names it: "int8", "double", "bool", "string", "binary", "decimal" (20 digits; every value has 3 behind
  /// the point), "timestamp" (seconds), "null", "list" (of int32; all nulls), "dictionary" (of strings).
  std::string type;
  std::vector<std::optional<std::string>> values;
};

/// How the file is written.
struct ParquetForm {
  std::int64_t rows_per_group = 1 << 20;
  bool is_compressed = false;  ///< by zstd
  bool has_schema = true;      ///< Arrow's own types are stored beside those of Parquet
  bool has_checksums = false;  ///< of pages
};

/// The bytes of a Parquet file.
std::string parquet_of(const std::vector<ColumnText>& columns, const ParquetForm& form = {});

}  // namespace keelson::testing
