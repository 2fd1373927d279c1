#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/tables/detail/table_rows.hpp"
#include "engine/data/tables/table_text.hpp"

namespace keelson::detail {
namespace {

/// Bytes of a file that a rank parses.
struct TextPart {
  std::int64_t file = 0;
  TextRange range;
};

/// Parses rows into numbers.
class RowParser {
 public:
  RowParser(const TableColumns& columns, const TableOptions& options, TableRows& rows)
      : columns_(columns), options_(options), rows_(rows), numbers_(columns.targets[0], rows.classes) {}

  void parse(const RawFile& file, std::string_view row, std::int64_t at) {
    const std::size_t first = rows_.values.size();
    rows_.values.resize(first + columns_.width());
    float* const values = rows_.values.data() + first;
    const char* const end = std::to_address(row.end());
    std::size_t column = 0;
    for (; row.data() && column < columns_.places.size(); ++column) {
      const int place = columns_.places[column];
      const bool is_class = static_cast<int>(column) == columns_.class_column;
      if (place >= 0 && !is_class) {
        const char* const begin = std::to_address(row.begin());
        if (const char* last = parse_plain_field(begin, end, columns_.delimiter, values[place])) {
          row = last == end ? std::string_view() : std::string_view(last + 1, end);
          continue;
        }
      }
      const std::string_view field = next_field(row, columns_.delimiter, memory_);
      if (place >= 0) values[place] = is_class ? class_of(file, field, at) : number_of(file, field, column, at);
    }
    if (row.data() || column < columns_.places.size())
      refuse("{}: line {} has {} fields. Expected {}, as in the first row", file.path(), line_of(file, at),
             row.data() ? fmt::format("more than {}", column) : fmt::format("{}", column), columns_.places.size());
  }

 private:
  float number_of(const RawFile& file, std::string_view field, std::size_t column, std::int64_t at) const {
    float number = 0;
    const bool is_number = parse_field(field, number);
    if (is_number && std::isfinite(number)) return number;
    const bool is_feature = columns_.places[column] < static_cast<int>(columns_.features.size());
    const bool is_empty = field.find_first_not_of(' ') == std::string_view::npos;
    if (options_.missing && is_feature && (is_number || is_empty)) return *options_.missing;
    refuse("{}: the column '{}' has {} in line {}. Expected a finite number; {}", file.path(), columns_.names[column],
           is_empty ? std::string("an empty field") : fmt::format("'{}'", field.substr(0, 40)), line_of(file, at),
           is_number || is_empty ? "give a value for missing ones, or leave the column out"
                                 : "name the columns to read, or, of a target with names, ask for classes");
  }

  float class_of(const RawFile& file, std::string_view field, std::int64_t at) {
    const auto number = numbers_.number_of(file.path(), field);
    if (!number)
      refuse("{}: the column '{}' has an empty field in line {}. Expected the name of a class", file.path(),
             columns_.targets[0], line_of(file, at));
    return *number;
  }

  const TableColumns& columns_;
  const TableOptions& options_;
  TableRows& rows_;
  ClassNumbers numbers_;
  std::string memory_;
};

/// The files one after the other are cut into as many equal parts as there are ranks. A row belongs to the part in
/// which it begins. Whether a part begins within quotes, the quotes before it in its file say.
std::vector<TextPart> text_parts(const FileList& files, Communicator* communicator) {
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  std::vector<TextPart> parts;
  std::int64_t quotes = 0, quotes_of_last = 0;
  on_each_rank(communicator, [&] {
    std::vector<std::int64_t> begins{0};
    for (std::int64_t f = 0; f < files.size(); ++f) begins.push_back(begins.back() + RawFile(files.path(f)).size());
    const std::int64_t first = begins.back() * rank / ranks, last = begins.back() * (rank + 1) / ranks;
    for (std::int64_t f = 0; f < files.size(); ++f) {
      const std::int64_t offset = begins[static_cast<std::size_t>(f)];
      const std::int64_t begin = std::max(first, offset), end = std::min(last, begins[static_cast<std::size_t>(f) + 1]);
      if (begin >= end) continue;
      parts.push_back({f, {begin - offset, end - offset}});
      quotes_of_last = count_quotes(RawFile(files.path(f)), begin - offset, end - offset);
      quotes += quotes_of_last;
    }
  });
  std::vector<std::int64_t> last_file(static_cast<std::size_t>(ranks)), in_last(last_file);
  last_file[static_cast<std::size_t>(rank)] = parts.empty() ? -1 : parts.back().file;
  in_last[static_cast<std::size_t>(rank)] = quotes_of_last;
  if (communicator) {
    communicator->allreduce(&quotes, 1, Reduction::sum);
    communicator->allreduce(last_file.data(), last_file.size(), Reduction::sum);
    communicator->allreduce(in_last.data(), in_last.size(), Reduction::sum);
  }
  for (TextPart& part : parts) part.range.has_quotes = quotes > 0;
  if (parts.empty()) return parts;
  std::int64_t before = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rank); ++r)
    if (last_file[r] == parts.front().file) before += in_last[r];
  parts.front().range.in_quotes = before % 2 != 0;
  return parts;
}

void require_header(const RawFile& file, std::string_view row, const TableColumns& columns, const std::string& first) {
  if (fields_of_row(row, columns.delimiter) != columns.names)
    refuse("{}: the first row has other names than that of {}. Expected the same columns in all files", file.path(),
           first);
}

TableRows parse(const FileList& files, const std::vector<TextPart>& parts, const TableColumns& columns,
                const TableOptions& options) {
  TableRows parsed;
  RowParser parser(columns, options, parsed);
  for (const TextPart& part : parts) {
    const RawFile file(files.path(part.file));
    bool is_header = columns.has_header && part.range.begin == 0;
    for_each_row(file, part.range, [&](std::string_view row, std::int64_t at) {
      if (parsed.values.empty() && !is_header)  // about as many rows as there would be of this length
        parsed.values.reserve(static_cast<std::size_t>(part.range.end - part.range.begin) / row.size() *
                              columns.width());
      if (is_header)
        require_header(file, row, columns, files.path(0));
      else
        parser.parse(file, row, at);
      is_header = false;
    });
  }
  return parsed;
}

}  // namespace

std::optional<float> ClassNumbers::number_of(const std::string& path, std::string_view name) {
  constexpr std::size_t most_classes = 65536;
  const auto begin = name.find_first_not_of(' '), end = name.find_last_not_of(' ');
  if (begin == std::string_view::npos) return {};
  const auto [found, is_new] =
      numbers_.try_emplace(std::string(name.substr(begin, end - begin + 1)), static_cast<int>(numbers_.size()));
  if (is_new) classes_.push_back(found->first);
  if (is_new && found->first.find('\0') != std::string::npos)
    refuse("{}: the column '{}' has a class whose name holds a NUL byte. Expected text", path, column_);
  if (numbers_.size() > most_classes)
    refuse("{}: the column '{}' has more than {} classes. Expected fewer; is it a number to predict?", path, column_,
           most_classes);
  return static_cast<float>(found->second);
}

TableRows read_text_rows(const FileList& files, const TableColumns& columns, const TableOptions& options,
                         Communicator* communicator) {
  TableRows rows;
  const auto parts = text_parts(files, communicator);
  on_each_rank(communicator, [&] { rows = parse(files, parts, columns, options); });
  return rows;
}

}  // namespace keelson::detail
