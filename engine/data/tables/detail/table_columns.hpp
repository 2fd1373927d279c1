#pragma once

#include <string>
#include <vector>

#include "engine/data/files/raw_file.hpp"
#include "engine/data/tables/table_dataset.hpp"

namespace keelson::detail {

/// The columns of a table, and what is read of them.
struct TableColumns {
  char delimiter = ',';
  bool has_header = false;
  std::vector<std::string> names;  ///< of all columns; numbers without a header
  /// Per column: its place in a row of features and then targets; -1: not read.
  std::vector<int> places;
  std::vector<std::string> features, targets;  ///< names
  int class_column = -1;                       ///< the column of classes; -1: none
  std::size_t width() const { return features.size() + targets.size(); }
};

/// Sets what is read of the columns `c.names`, as `options` say. `path` and `advice`, for a table without the columns
/// that are asked for, are parts of messages. Throws InputError for columns that are not there.
void choose_columns(const std::string& path, const TableOptions& options, const std::string& advice, TableColumns& c);

/// From the first row of a file. Throws InputError as choose_columns().
TableColumns find_text_columns(const RawFile& file, const TableOptions& options);

/// Whether the file is Parquet, by its name or by its first bytes.
bool is_parquet(const std::string& path);
/// From the schema of a Parquet file. Throws InputError as choose_columns(), and for a damaged file.
TableColumns find_parquet_columns(const std::string& path, const TableOptions& options);

}  // namespace keelson::detail
