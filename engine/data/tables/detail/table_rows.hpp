#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/tables/detail/table_columns.hpp"
#include "engine/data/tables/table_dataset.hpp"

/// The rows of a table's files, of which each rank reads a share.
namespace keelson::detail {

/// The rows that one rank has read.
struct TableRows {
  std::vector<float> values;         ///< (rows, TableColumns::width()); of a class: its number in `classes`
  std::vector<std::string> classes;  ///< names of classes, in the order of their appearance
};

/// Numbers the names of classes in the order of their appearance.
class ClassNumbers {
 public:
  /// `classes` receives the names. `column`: for messages.
  ClassNumbers(std::string column, std::vector<std::string>& classes) : column_(std::move(column)), classes_(classes) {}
  /// The number of a name, without spaces around it; no value for an empty name. Throws InputError, naming the file
  /// `path`, for more than 65536 names, and for a name with a NUL byte.
  std::optional<float> number_of(const std::string& path, std::string_view name);

 private:
  std::string column_;
  std::vector<std::string>& classes_;
  std::unordered_map<std::string, int> numbers_;
};

/// Reads this rank's share of the rows. The shares of all ranks, one after the other, are the rows of all files in
/// their order. Throws InputError on all ranks, naming the file and the place. Collective.
TableRows read_text_rows(const FileList& files, const TableColumns& columns, const TableOptions& options,
                         Communicator* communicator);
/// As read_text_rows(). A row group belongs to the rank in whose equal share of all rows the row group begins.
TableRows read_parquet_rows(const FileList& files, const TableColumns& columns, const TableOptions& options,
                            Communicator* communicator);

}  // namespace keelson::detail
