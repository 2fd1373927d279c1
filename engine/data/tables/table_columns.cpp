#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/data/files/decompress.hpp"
#include "engine/data/tables/detail/table_columns.hpp"
#include "engine/data/tables/table_text.hpp"

namespace keelson::detail {
namespace {

bool is_number(const std::string& text) {
  float number;
  return parse_field(text, number);
}

/// Of the first row: names stand where no field is a number.
bool has_names(const std::vector<std::string>& row) { return std::ranges::none_of(row, is_number); }

/// The column that the user names; no value if there is none.
std::optional<std::size_t> find_column(const std::vector<std::string>& names, const std::string& wanted) {
  if (const auto found = std::ranges::find(names, wanted); found != names.end())
    return static_cast<std::size_t>(found - names.begin());
  std::int64_t number = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [last, error] = std::from_chars(wanted.data(), end, number);
  const std::int64_t columns = std::ssize(names), index = number < 0 ? columns + number : number;
  if (error != std::errc() || last != end || index < 0 || index >= columns) return {};
  return static_cast<std::size_t>(index);
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  const auto shown = std::min(most, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : "");
}

void place(TableColumns& c, const std::string& path, const std::vector<std::string>& wanted,
           std::vector<std::string>& into, int first) {
  for (const std::string& name : wanted) {
    const auto column = find_column(c.names, name);
    if (!column)
      refuse("{}: has no column '{}'. Expected one of {}: {}", path, name, counted(std::ssize(c.names), "column"),
             list_of(c.names));
    if (c.places[*column] >= 0)
      refuse("{}: the column '{}' is asked for twice. Expected each column once, as a feature or as a target", path,
             name);
    c.places[*column] = first + static_cast<int>(into.size());
    into.push_back(c.names[*column]);
  }
}

std::string first_row(const RawFile& file) {
  std::string row;
  for_each_row(file, {0, 1}, [&](std::string_view r, std::int64_t) { row = r; });
  if (row.empty()) refuse("{}: the first line is empty. Expected rows of fields", file.path());
  return row;
}

/// Throws InputError for a name that two columns have.
void require_distinct(const TableColumns& c, const std::string& path, const std::string& advice) {
  auto names = c.names;
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    refuse("{}: two columns have the name '{}'. Expected a name for each{}", path, *twice, advice);
}

}  // namespace

void choose_columns(const std::string& path, const TableOptions& options, const std::string& advice, TableColumns& c) {
  require_distinct(c, path, advice);
  c.places.assign(c.names.size(), -1);
  const auto targets = options.targets.empty() ? std::vector<std::string>{c.names.back()} : options.targets;
  auto features = options.features;
  if (features.empty()) {
    std::vector<bool> is_target(c.names.size(), false);
    for (const auto& t : targets)
      if (const auto column = find_column(c.names, t)) is_target[*column] = true;
    for (std::size_t i = 0; i < c.names.size(); ++i)
      if (!is_target[i]) features.push_back(c.has_header ? c.names[i] : fmt::format("{}", i));
  }
  place(c, path, features, c.features, 0);
  place(c, path, targets, c.targets, static_cast<int>(c.features.size()));
  if (c.features.empty())
    refuse("{}: has {}, and all of them are targets. Expected features, too{}", path,
           counted(std::ssize(c.names), "column"), advice);
  if (options.classes && c.targets.size() != 1)
    refuse("classes of {} targets: expected one target, whose values are the classes", c.targets.size());
  if (options.classes)
    c.class_column =
        static_cast<int>(std::ranges::find(c.places, static_cast<int>(c.features.size())) - c.places.begin());
}

TableColumns find_text_columns(const RawFile& file, const TableOptions& options) {
  if (is_compressed_content(file))
    refuse("{}: is compressed. Expected a table as text; decompress it first, e.g. with gunzip", file.path());
  const std::string row = first_row(file);
  TableColumns c;
  c.delimiter = options.delimiter != 0 ? options.delimiter : delimiter_of(row);
  const auto first = fields_of_row(row, c.delimiter);
  c.has_header = options.header.value_or(has_names(first));
  for (std::size_t i = 0; i < first.size(); ++i) c.names.push_back(c.has_header ? first[i] : fmt::format("{}", i));
  choose_columns(file.path(), options, fmt::format("; is '{}' the delimiter?", c.delimiter), c);
  return c;
}

}  // namespace keelson::detail
