#include <algorithm>
#include <cstring>
#include <span>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/tables/detail/parquet_file.hpp"
#include "engine/data/tables/detail/table_rows.hpp"

namespace keelson::detail {
namespace {

/// A row group of a file.
struct RowGroup {
  std::int64_t file = 0, group = 0, rows = 0;
};

/// The row groups of all files, in order. Each rank opens a share of the files.
std::vector<RowGroup> list_row_groups(const FileList& files, Communicator* communicator) {
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  std::vector<RowGroup> groups;
  on_each_rank(communicator, [&] {
    for (std::int64_t f = files.size() * rank / ranks; f < files.size() * (rank + 1) / ranks; ++f) {
      const auto file = open_parquet(files.path(f));
      for (std::int64_t g = 0; g < file->groups(); ++g) groups.push_back({f, g, file->rows(g)});
    }
  });
  if (!communicator) return groups;
  const auto bytes = std::as_bytes(std::span(groups));
  const auto all = communicator->allgather({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  groups.clear();
  for (const std::string& of_rank : all) {
    const std::size_t before = groups.size();
    groups.resize(before + of_rank.size() / sizeof(RowGroup));
    std::memcpy(groups.data() + before, of_rank.data(), of_rank.size());
  }
  return groups;
}

/// The row groups of this rank.
std::vector<RowGroup> share_of(const std::vector<RowGroup>& groups, Communicator* communicator) {
  if (!communicator) return groups;
  std::int64_t all = 0, before = 0;
  for (const RowGroup& g : groups) all += g.rows;
  const std::int64_t first = all * communicator->rank() / communicator->size();
  const std::int64_t last = all * (communicator->rank() + 1) / communicator->size();
  std::vector<RowGroup> mine;
  for (const RowGroup& g : groups) {
    if (before >= first && before < last) mine.push_back(g);
    before += g.rows;
  }
  return mine;
}

void read_group(const ParquetFile& file, std::int64_t group, const TableColumns& columns, const TableOptions& options,
                ClassNumbers& classes, std::vector<float>& values) {
  const std::size_t before = values.size();
  for (std::size_t c = 0; c < columns.names.size(); ++c) {
    if (columns.places[c] < 0) continue;
    const ParquetColumn column{group, columns.names[c]};
    const StridedValues to{&values, before + static_cast<std::size_t>(columns.places[c]), columns.width()};
    const bool is_feature = columns.places[c] < static_cast<int>(columns.features.size());
    if (static_cast<int>(c) == columns.class_column)
      file.read_classes(column, classes, to);
    else
      file.read_numbers(column, is_feature ? options.missing : std::nullopt, to);
  }
}

}  // namespace

bool is_parquet(const std::string& path) {
  if (path.ends_with(".parquet")) return true;
  const RawFile file(path);
  constexpr std::string_view magic = "PAR1";
  std::string first(magic.size(), ' ');
  if (file.size() < std::ssize(first)) return false;
  file.read(first.data(), std::ssize(first), 0);
  return first == magic;
}

TableColumns find_parquet_columns(const std::string& path, const TableOptions& options) {
  TableColumns columns;
  columns.has_header = true;
  columns.names = open_parquet(path)->names();
  if (columns.names.empty()) refuse("{}: has no columns. Expected a table", path);
  choose_columns(path, options, "", columns);
  return columns;
}

TableRows read_parquet_rows(const FileList& files, const TableColumns& columns, const TableOptions& options,
                            Communicator* communicator) {
  TableRows rows;
  const auto groups = share_of(list_row_groups(files, communicator), communicator);
  on_each_rank(communicator, [&] {
    ClassNumbers classes(columns.targets[0], rows.classes);
    std::unique_ptr<const ParquetFile> file;
    std::int64_t open = -1;
    for (const RowGroup& g : groups) {
      if (open != g.file) {
        open = g.file;
        file = open_parquet(files.path(open));
        for (std::size_t c = 0; c < columns.names.size(); ++c)
          if (columns.places[c] >= 0 && !file->has_column(columns.names[c]))
            refuse("{}: has no column '{}', which {} has. Expected the same columns in all files", files.path(open),
                   columns.names[c], files.path(0));
      }
      if (g.group >= file->groups() || file->rows(g.group) != g.rows)
        refuse("{}: has changed while it was read", files.path(open));
      read_group(*file, g.group, columns, options, classes, rows.values);
    }
  });
  return rows;
}

}  // namespace keelson::detail
