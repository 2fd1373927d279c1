#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/files/find_files.hpp"

namespace keelson {

/// Which columns of a table a network reads and predicts. A column is named as in the table's first row, or by its
/// number from 0; negative numbers count from the last column, -1.
struct TableOptions {
  std::vector<std::string> targets;   ///< what the network predicts; empty: the last column
  std::vector<std::string> features;  ///< what the network reads; empty: all other columns
  /// The one target is a class, whose names are any texts: y is its number in the sorted list of names (numbers, if all
  /// names are numbers, in their order).
  bool classes = false;
  /// The classes in the order of their numbers; empty: those of the table, sorted. Others are refused.
  std::vector<std::string> class_names = {};
  bool standardise = false;  ///< features become (value - mean) / standard deviation over all rows
  /// Replaces empty fields (of Parquet: nulls), "nan" and "inf" of features; no value: these are refused.
  std::optional<float> missing;
  /// Of text: 0: that of , ; tab and | which the first row has most, else spaces.
  char delimiter = 0;
  /// Of text: whether the first row has names; no value: it does if no field in it is a number.
  std::optional<bool> header;
};

/// The forms of files that TableDataset reads: CSV, names that end in .csv or .tsv, and Parquet, .parquet.
std::vector<FileForm> table_forms();

/// Whether the files under `path` are tables, by their names, and not arrays (array_forms()). Throws InputError if
/// there are neither.
bool names_tables(const std::string& path);

/// Whether the one target of a table is a class: a column with names, or with at most 100 different whole numbers from
/// 0. Reads the table. Throws InputError as TableDataset does. Collective.
bool has_classes(const std::string& path, TableOptions options, Communicator* communicator = nullptr);

/// A table in text files (engine/data/tables/table_text.hpp), or in Parquet files if Keelson was built with Apache
/// Arrow, one sample for each row. Fields: "x" (features) f32, and "y" (targets) f32, or with classes () s32.
///
/// Each rank reads a part: bytes of text, or row groups of Parquet. Each row group is decoded once, by one rank; memory
/// holds one of its columns at a time. The numbers of all rows are kept once per node (SharedBytes): 4 bytes for each
/// feature and target of each row. read() takes them from there, and reads no file.
class TableDataset final : public Dataset {
 public:
  /// `path`: a file, a folder with files that end in .csv or .tsv, or in .parquet, or a pattern. Several files are read
  /// one after the other, in the order of their names; all have the columns of the first one. Throws InputError on all
  /// ranks, naming the file and the line (of Parquet: the row group, the column and the row), for fields that are
  /// missing or no numbers, for rows of another number of fields, and for Parquet files in a build without Arrow.
  /// `communicator` null: one rank. Collective.
  TableDataset(const std::string& path, const TableOptions& options, Communicator* communicator = nullptr);
  /// Reads another table as `like` was read: the same columns by name, the numbers of the classes, mean and standard
  /// deviation are those of `like`. Throws InputError for a class that `like` does not have, too.
  TableDataset(const std::string& path, const TableDataset& like, Communicator* communicator = nullptr);
  ~TableDataset() override;

  std::int64_t size() const override;
  const std::vector<Field>& fields() const override;
  void read(std::int64_t index, void* const* dst) const override;
  /// Of a table of one file.
  std::string file_of(std::int64_t index) const override;
  std::string describe() const override;
  std::uint64_t digest() const override;

  const std::vector<std::string>& features() const;  ///< names of the columns of x, as in the table, or "0", "1", ...
  const std::vector<std::string>& targets() const;   ///< names of the columns of y
  const std::vector<std::string>& classes() const;   ///< names of the classes, in the order of their numbers
  const std::vector<double>& means() const;          ///< of each feature, over all rows of the first table
  const std::vector<double>& deviations() const;     ///< standard deviations of them; 1 for a constant feature

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
