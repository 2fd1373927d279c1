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

/// From the first row of a file. Throws InputError for columns that are not there.
TableColumns find_columns(const RawFile& file, const TableOptions& options);

}  // namespace keelson::detail
