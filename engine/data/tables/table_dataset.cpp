#include "engine/data/tables/table_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/files/shared_bytes.hpp"
#include "engine/data/tables/detail/table_columns.hpp"
#include "engine/data/tables/table_text.hpp"

namespace keelson {
namespace {

constexpr std::size_t most_classes = 65536;

/// Files of which a rank parses some bytes.
struct TablePart {
  std::int64_t file = 0;
  TextRange range;
};

/// The rows that one rank has parsed.
struct ParsedRows {
  std::vector<float> values;         ///< (rows, width)
  std::vector<std::string> classes;  ///< by number of this rank, in the order of their appearance
};

/// Parses rows into numbers.
class RowParser {
 public:
  RowParser(const detail::TableColumns& columns, const TableOptions& options, ParsedRows& rows)
      : columns_(columns), options_(options), rows_(rows) {}

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
    const auto begin = field.find_first_not_of(' '), end = field.find_last_not_of(' ');
    if (begin == std::string_view::npos)
      refuse("{}: the column '{}' has an empty field in line {}. Expected the name of a class", file.path(),
             columns_.targets[0], line_of(file, at));
    const auto [found, is_new] =
        numbers_.try_emplace(std::string(field.substr(begin, end - begin + 1)), static_cast<int>(numbers_.size()));
    if (is_new) rows_.classes.push_back(found->first);
    if (numbers_.size() > most_classes)
      refuse("{}: the column '{}' has more than {} classes. Expected fewer; is it a number to predict?", file.path(),
             columns_.targets[0], most_classes);
    return static_cast<float>(found->second);
  }

  const detail::TableColumns& columns_;
  const TableOptions& options_;
  ParsedRows& rows_;
  std::unordered_map<std::string, int> numbers_;
  std::string memory_;
};

/// Sorted as numbers if all of them are numbers, else as texts.
std::vector<std::string> sorted_classes(std::vector<std::string> names) {
  bool are_numbers = true;
  std::map<std::string, float> number_of;
  for (const auto& n : names) are_numbers = parse_field(n, number_of[n]) && are_numbers;
  std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
    return are_numbers && number_of[a] != number_of[b] ? number_of[a] < number_of[b] : a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> find_tables(const std::string& path) {
  const auto has_name = [](const std::string& p) { return p.ends_with(".csv") || p.ends_with(".tsv"); };
  return find_files(path, {{"CSV", "end in .csv or .tsv", has_name}});
}

}  // namespace

struct TableDataset::Impl {
  Impl(const std::string& path_, TableOptions options_, const Impl* like, Communicator* communicator);

  std::string path;
  TableOptions options;
  FileList files;
  detail::TableColumns columns;
  std::vector<std::string> classes;
  std::vector<double> means, deviations;
  std::vector<Field> fields;
  SharedBytes rows;
  std::int64_t size = 0;

  std::vector<TablePart> parts_of(Communicator* communicator) const;
  ParsedRows parse(const std::vector<TablePart>& parts) const;
  void require_header(const RawFile& file, std::string_view row) const;
  void number_classes(ParsedRows& mine, const Impl* like, Communicator* communicator);
  void share(const ParsedRows& mine, Communicator* communicator);
  void find_statistics();
  const float* row(std::int64_t index) const {
    return reinterpret_cast<const float*>(rows.bytes().data()) + index * static_cast<std::int64_t>(columns.width());
  }
};

TableDataset::Impl::Impl(const std::string& path_, TableOptions options_, const Impl* like, Communicator* communicator)
    : path(path_), options(std::move(options_)), files(path, communicator, find_tables), rows(communicator) {
  on_each_rank(communicator, [&] {
    columns = detail::find_columns(RawFile(files.path(0)), options);
    if (like && columns.features != like->columns.features)
      refuse("{}: has other columns than {}", files.path(0), like->path);
  });
  ParsedRows mine;
  const auto parts = parts_of(communicator);
  on_each_rank(communicator, [&] { mine = parse(parts); });
  if (options.classes) number_classes(mine, like, communicator);
  share(mine, communicator);
  if (size == 0) refuse("{}: has no rows. Expected a table with one row for each sample", path);
  if (like) {
    means = like->means;
    deviations = like->deviations;
  } else {
    find_statistics();
  }
  fields = {{"x", {std::ssize(columns.features)}},
            options.classes ? Field{"y", {}, DType::s32} : Field{"y", {std::ssize(columns.targets)}}};
}

/// The files one after the other are cut into as many equal parts as there are ranks. A row belongs to the part in
/// which it begins. Whether a part begins within quotes, the quotes before it in its file say.
std::vector<TablePart> TableDataset::Impl::parts_of(Communicator* communicator) const {
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  std::vector<TablePart> parts;
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
  for (TablePart& part : parts) part.range.has_quotes = quotes > 0;
  if (parts.empty()) return parts;
  std::int64_t before = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rank); ++r)
    if (last_file[r] == parts.front().file) before += in_last[r];
  parts.front().range.in_quotes = before % 2 != 0;
  return parts;
}

void TableDataset::Impl::require_header(const RawFile& file, std::string_view row) const {
  if (fields_of_row(row, columns.delimiter) != columns.names)
    refuse("{}: the first row has other names than that of {}. Expected the same columns in all files", file.path(),
           files.path(0));
}

ParsedRows TableDataset::Impl::parse(const std::vector<TablePart>& parts) const {
  ParsedRows parsed;
  RowParser parser(columns, options, parsed);
  for (const TablePart& part : parts) {
    const RawFile file(files.path(part.file));
    bool is_header = columns.has_header && part.range.begin == 0;
    for_each_row(file, part.range, [&](std::string_view row, std::int64_t at) {
      if (parsed.values.empty() && !is_header)  // about as many rows as there would be of this length
        parsed.values.reserve(static_cast<std::size_t>(part.range.end - part.range.begin) / row.size() *
                              columns.width());
      if (is_header)
        require_header(file, row);
      else
        parser.parse(file, row, at);
      is_header = false;
    });
  }
  return parsed;
}

/// The ranks' own numbers become those of the sorted list of all classes.
void TableDataset::Impl::number_classes(ParsedRows& mine, const Impl* like, Communicator* communicator) {
  std::vector<std::string> names = mine.classes;
  if (communicator) {
    std::string text;
    for (const auto& n : mine.classes) text += n + '\0';
    names.clear();
    for (const std::string& of_rank : communicator->allgather(text))
      for (std::size_t at = 0; at < of_rank.size();) {
        const auto end = of_rank.find('\0', at);
        names.push_back(of_rank.substr(at, end - at));
        at = end + 1;
      }
  }
  classes = like ? like->classes : sorted_classes(names);
  std::map<std::string, float> number_of;
  for (std::size_t i = 0; i < classes.size(); ++i) number_of[classes[i]] = static_cast<float>(i);
  for (const auto& n : names)
    if (!number_of.contains(n))
      refuse("{}: the class '{}' is not one of the {} classes of {}. Expected the classes of the first table", path, n,
             classes.size(), like->path);
  const std::size_t width = columns.width();
  for (std::size_t i = width - 1; i < mine.values.size(); i += width)
    mine.values[i] = number_of[mine.classes[static_cast<std::size_t>(mine.values[i])]];
}

/// Mean and standard deviation of each feature. Every rank adds up all rows, so that the results do not depend on the
/// number of ranks.
void TableDataset::Impl::find_statistics() {
  const std::size_t features = columns.features.size();
  const auto count = static_cast<double>(size);
  means.assign(features, 0);
  for (std::int64_t i = 0; i < size; ++i)
    for (std::size_t f = 0; f < features; ++f) means[f] += static_cast<double>(row(i)[f]);
  for (double& m : means) m /= count;
  std::vector<double> squares(features);
  for (std::int64_t i = 0; i < size; ++i)
    for (std::size_t f = 0; f < features; ++f) {
      const double d = static_cast<double>(row(i)[f]) - means[f];
      squares[f] += d * d;
    }
  deviations.assign(features, 1);
  for (std::size_t f = 0; f < features; ++f)
    if (squares[f] > 0) deviations[f] = std::sqrt(squares[f] / count);
}

void TableDataset::Impl::share(const ParsedRows& mine, Communicator* communicator) {
  const int ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  std::vector<std::int64_t> values(static_cast<std::size_t>(ranks));
  values[static_cast<std::size_t>(rank)] = std::ssize(mine.values);
  if (communicator) communicator->allreduce(values.data(), values.size(), Reduction::sum);
  for (int r = 0; r < ranks; ++r)
    rows.append(mine.values.data(), static_cast<std::size_t>(values[static_cast<std::size_t>(r)]) * sizeof(float), r);
  rows.finish();
  size = std::accumulate(values.begin(), values.end(), std::int64_t{0}) / static_cast<std::int64_t>(columns.width());
}

TableDataset::TableDataset(const std::string& path, const TableOptions& options, Communicator* communicator)
    : impl_(std::make_unique<Impl>(path, options, nullptr, communicator)) {}

TableDataset::TableDataset(const std::string& path, const TableDataset& like, Communicator* communicator) {
  TableOptions options = like.impl_->options;
  options.features = like.impl_->columns.features;
  options.targets = like.impl_->columns.targets;
  impl_ = std::make_unique<Impl>(path, std::move(options), like.impl_.get(), communicator);
}

TableDataset::~TableDataset() = default;

std::int64_t TableDataset::size() const { return impl_->size; }
const std::vector<Field>& TableDataset::fields() const { return impl_->fields; }
const std::vector<std::string>& TableDataset::features() const { return impl_->columns.features; }
const std::vector<std::string>& TableDataset::targets() const { return impl_->columns.targets; }
const std::vector<std::string>& TableDataset::classes() const { return impl_->classes; }
const std::vector<double>& TableDataset::means() const { return impl_->means; }
const std::vector<double>& TableDataset::deviations() const { return impl_->deviations; }

void TableDataset::read(std::int64_t index, void* const* dst) const {
  KEELSON_EXPECT(index >= 0 && index < size());
  const float* const row = impl_->row(index);
  const std::size_t features = impl_->columns.features.size(), targets = impl_->columns.targets.size();
  auto* const x = static_cast<float*>(dst[0]);
  for (std::size_t f = 0; f < features; ++f)
    x[f] = impl_->options.standardise
               ? static_cast<float>((static_cast<double>(row[f]) - impl_->means[f]) / impl_->deviations[f])
               : row[f];
  if (impl_->options.classes)
    *static_cast<std::int32_t*>(dst[1]) = static_cast<std::int32_t>(row[features]);
  else
    std::memcpy(dst[1], row + features, targets * sizeof(float));
}

std::string TableDataset::describe() const {
  const auto& c = impl_->columns;
  return fmt::format("{} of {} with {} in {} under {}", counted(size(), "row"),
                     counted(std::ssize(c.features), "feature"),
                     impl_->options.classes ? fmt::format("{} classes", impl_->classes.size())
                                            : counted(std::ssize(c.targets), "target"),
                     counted(impl_->files.size(), "file"), impl_->path);
}

std::uint64_t TableDataset::digest() const {
  Digest digest;
  digest.add(Dataset::digest()).add(impl_->rows.digest()).add(impl_->options.standardise);
  for (const auto& names : {impl_->columns.features, impl_->columns.targets, impl_->classes})
    for (const auto& n : names) digest.add(n);
  for (const double m : impl_->means) digest.add(m);
  return digest.value();
}

}  // namespace keelson
