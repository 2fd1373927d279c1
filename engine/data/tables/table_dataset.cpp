#include "engine/data/tables/table_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/arrays/array_file.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/files/shared_bytes.hpp"
#include "engine/data/tables/detail/table_columns.hpp"
#include "engine/data/tables/detail/table_rows.hpp"
#include "engine/data/tables/table_text.hpp"

namespace keelson {
namespace {

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

/// Whether the values of the first target are whole numbers from 0, of which there are few different ones.
bool has_few_whole_numbers(const TableDataset& table) {
  constexpr std::size_t most_classes = 100;
  std::vector<float> x(table.features().size()), y(table.targets().size());
  void* const dst[] = {x.data(), y.data()};
  std::set<float> different;
  for (std::int64_t i = 0; i < table.size(); ++i) {
    table.read(i, dst);
    if (y[0] < 0 || std::floor(y[0]) != y[0]) return false;
    different.insert(y[0]);
    if (different.size() > most_classes) return false;
  }
  return true;
}

}  // namespace

bool names_tables(const std::string& path) {
  const auto tables = table_forms();
  auto forms = tables;
  for (const auto& form : array_forms()) forms.push_back(form);
  const auto files = find_files(path, forms);
  return std::ranges::any_of(tables, [&](const FileForm& f) { return f.has_name(files.front()); });
}

bool has_classes(const std::string& path, TableOptions options, Communicator* communicator) {
  if (options.targets.size() > 1) return false;
  options.classes = options.standardise = false;
  std::unique_ptr<const TableDataset> table;
  try {
    table = std::make_unique<TableDataset>(path, options, communicator);
  } catch (const InputError&) {  // names, or a fault of the table, which then also the second reading finds
    return true;
  }
  return has_few_whole_numbers(*table);
}

std::vector<FileForm> table_forms() {
  const auto is_text = [](const std::string& path) { return path.ends_with(".csv") || path.ends_with(".tsv"); };
  const auto is_parquet = [](const std::string& path) { return path.ends_with(".parquet"); };
  return {{"CSV", "end in .csv or .tsv", is_text}, {"Parquet", "end in .parquet", is_parquet}};
}

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

  void number_classes(detail::TableRows& mine, const Impl* like, Communicator* communicator);
  void share(const detail::TableRows& mine, Communicator* communicator);
  void find_statistics();
  const float* row(std::int64_t index) const {
    return reinterpret_cast<const float*>(rows.bytes().data()) + index * static_cast<std::int64_t>(columns.width());
  }
};

TableDataset::Impl::Impl(const std::string& path_, TableOptions options_, const Impl* like, Communicator* communicator)
    : path(path_),
      options(std::move(options_)),
      files(path, communicator, [](const std::string& p) { return find_files(p, table_forms()); }),
      rows(communicator) {
  bool is_parquet = false;
  on_each_rank(communicator, [&] {
    is_parquet = detail::is_parquet(files.path(0));
    columns = is_parquet ? detail::find_parquet_columns(files.path(0), options)
                         : detail::find_text_columns(RawFile(files.path(0)), options);
    if (like && columns.features != like->columns.features)
      refuse("{}: has other columns than {}", files.path(0), like->path);
  });
  detail::TableRows mine = is_parquet ? detail::read_parquet_rows(files, columns, options, communicator)
                                      : detail::read_text_rows(files, columns, options, communicator);
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

/// The ranks' own numbers become those of the sorted list of all classes.
void TableDataset::Impl::number_classes(detail::TableRows& mine, const Impl* like, Communicator* communicator) {
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
  classes = like ? like->classes : options.class_names.empty() ? sorted_classes(names) : options.class_names;
  std::map<std::string, float> number_of;
  for (std::size_t i = 0; i < classes.size(); ++i) number_of[classes[i]] = static_cast<float>(i);
  for (const auto& n : names)
    if (!number_of.contains(n))
      refuse("{}: the class '{}' is not one of the {} classes of {}. Expected the classes of the first table", path, n,
             classes.size(), like ? like->path : "the network");
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

void TableDataset::Impl::share(const detail::TableRows& mine, Communicator* communicator) {
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

std::string TableDataset::file_of(std::int64_t) const { return impl_->files.size() == 1 ? impl_->files.path(0) : ""; }

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
