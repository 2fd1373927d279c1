#include "apps/search/search_data.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/data/arrays/array_file.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "engine/data/subset_dataset.hpp"
#include "engine/data/tables/table_dataset.hpp"

namespace keelson::search {
namespace {

std::int64_t elements_of_sample(const Field& field) { return field.shape.elements(); }

/// Reads one field of all samples, in turn.
template <class T, class Use>
void for_each_target(const Dataset& data, const Use& use) {
  std::vector<std::vector<std::byte>> sample;
  std::vector<void*> dst;
  for (const Field& f : data.fields()) sample.emplace_back(static_cast<std::size_t>(f.bytes()));
  for (auto& field : sample) dst.push_back(field.data());
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read(i, dst.data());
    use(reinterpret_cast<const T*>(sample[1].data()));
  }
}

/// A data set whose targets have mean 0 and deviation 1.
class StandardisedTargets final : public Dataset {
 public:
  StandardisedTargets(const Dataset& data, const std::vector<double>& means, const std::vector<double>& deviations)
      : data_(data), means_(means), deviations_(deviations) {}
  std::int64_t size() const override { return data_.size(); }
  const std::vector<Field>& fields() const override { return data_.fields(); }
  void read(std::int64_t index, void* const* dst) const override {
    data_.read(index, dst);
    auto* y = static_cast<float*>(dst[1]);
    for (std::size_t k = 0; k < means_.size(); ++k) y[k] = static_cast<float>((y[k] - means_[k]) / deviations_[k]);
  }
  std::string describe() const override { return data_.describe(); }
  std::uint64_t digest() const override { return data_.digest(); }

 private:
  const Dataset& data_;
  const std::vector<double>&means_, &deviations_;
};

std::optional<float> number_for_missing(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto number = parse_number<float>(text);
  if (!number) refuse("--missing {}: give the number that takes the place of missing values", text);
  return number;
}

ArrayLayout layout_of(const std::string& name) {
  return name == "channels-last" ? ArrayLayout::channels_last
         : name == "none"        ? ArrayLayout::none
                                 : ArrayLayout::channels_first;
}

bool names_tables(const std::string& path) {
  const auto tables = table_forms();
  auto forms = tables;
  for (const auto& form : array_forms()) forms.push_back(form);
  const auto files = find_files(path, forms);
  return std::ranges::any_of(tables, [&](const FileForm& f) { return f.has_name(files.front()); });
}

}  // namespace

void declare(DataOptions& o, app::Subcommand& v) {
  v.option_without_default(
       "--data", o.data,
       "Labelled data: a file, a folder or a pattern. Tables (CSV, Parquet) have a sample in each row; "
       "arrays (HDF5, NetCDF, NumPy) have the samples along their first dimension",
       "PATH")
      .stored();
  v.option_without_default("--validation", o.validation,
                           "Data that choose between networks; by default a part of --data", "PATH")
      .stored();
  v.option_without_default("--test", o.test, "Data on which the best network is evaluated at the end", "PATH").stored();
  v.option("--holdout", o.holdout, "Part of --data that is held out for validation, at random", "PART")
      .between(0.01, 0.9)
      .stored();
  v.option("--split-seed", o.split_seed, "Seed of the held-out part", "N").stored();
  v.flag("--classes", o.classes, "The target is a class, not a number").stored();
  v.option_without_default("--target", o.targets, "Columns of a table to predict; default: the last one", "COLUMN,...")
      .comma_separated()
      .stored();
  v.option_without_default("--features", o.features, "Columns of a table to read; default: all others", "COLUMN,...")
      .comma_separated()
      .stored();
  v.option("--x", o.x, "Array of what the networks read", "NAME").stored();
  v.option("--y", o.y, "Array of what the networks predict", "NAME").stored();
  v.option("--layout", o.layout, "Where the channels of a sample are in --x")
      .one_of({"channels-last", "channels-first", "none"})
      .stored();
  v.flag("--one-per-file", o.one_per_file, "Each file of arrays is one sample").stored();
  v.option_without_default("--missing", o.missing,
                           "Number in the place of missing values of x; default: they are refused", "NUMBER")
      .stored();
}

SearchData::SearchData(const DataOptions& o, Communicator* world) {
  with_classes_ = o.classes;
  open(o, world);
  if (!o.validation.empty()) validation_ = open_another(o.validation, world);
  if (!o.test.empty()) test_ = open_another(o.test, world);
  training_ = whole_;
  if (validation_ == nullptr) {
    Split split = split_at_random(whole_->size(), o.holdout, o.split_seed);
    if (split.part.empty() || split.rest.empty())
      refuse("{}: too few samples to hold out {} of them for validation; give more data, or --validation",
             whole_->describe(), o.holdout);
    training_ = keep(std::make_unique<SubsetDataset>(*whole_, std::move(split.rest)));
    validation_ = keep(std::make_unique<SubsetDataset>(*whole_, std::move(split.part)));
  }
  if (with_classes_)
    count_classes();
  else
    standardise_targets();
}

SearchData::~SearchData() = default;

const Dataset* SearchData::keep(std::unique_ptr<const Dataset> dataset) {
  kept_.push_back(std::move(dataset));
  return kept_.back().get();
}

void SearchData::open(const DataOptions& o, Communicator* world) {
  table_ = names_tables(o.data);
  if (table_) {
    TableOptions t;
    t.targets = o.targets;
    t.features = o.features;
    t.classes = o.classes;
    t.standardise = true;
    t.missing = number_for_missing(o.missing);
    auto table = std::make_unique<TableDataset>(o.data, t, world);
    classes_ = table->classes();
    whole_ = keep(std::move(table));
    return;
  }
  if (!o.targets.empty() || !o.features.empty())
    refuse("{}: --target and --features choose columns of a table; arrays are chosen by --x and --y", o.data);
  ArrayFileOptions a;
  a.x = o.x;
  a.y = o.y;
  a.layout = layout_of(o.layout);
  a.one_per_file = o.one_per_file;
  a.classes = o.classes;
  a.standardise = true;
  a.missing = number_for_missing(o.missing);
  whole_ = keep(std::make_unique<ArrayFileDataset>(o.data, a, world));
}

const Dataset* SearchData::open_another(const std::string& path, Communicator* world) {
  if (table_) return keep(std::make_unique<TableDataset>(path, dynamic_cast<const TableDataset&>(*whole_), world));
  return keep(std::make_unique<ArrayFileDataset>(path, dynamic_cast<const ArrayFileDataset&>(*whole_), "", world));
}

void SearchData::count_classes() {
  const Field& y = training_->fields()[1];
  if (elements_of_sample(y) != 1)
    refuse("{}: a class must be one number for each sample, but y has the shape {}", training_->describe(),
           to_string(y.shape));
  std::int64_t most = -1;
  for (const Dataset* part : {training_, validation_, test_})
    if (part != nullptr)
      for_each_target<std::int32_t>(*part, [&](const std::int32_t* y_value) {
        if (*y_value < 0) refuse("{}: the class {}; classes are numbers from 0 on", part->describe(), *y_value);
        most = std::max<std::int64_t>(most, *y_value);
      });
  outputs_ = std::max<std::int64_t>(most + 1, std::ssize(classes_));
  constexpr std::int64_t most_classes = 100'000;
  if (outputs_ < 2 || outputs_ > most_classes)
    refuse("{}: {} classes; a search needs 2 to {}. Are these numbers to predict? Then leave --classes out",
           training_->describe(), outputs_, most_classes);
}

void SearchData::standardise_targets() {
  outputs_ = elements_of_sample(training_->fields()[1]);
  const auto size = static_cast<std::size_t>(outputs_);
  std::vector<double> sums(size), squares(size);
  for_each_target<float>(*training_, [&](const float* y) {
    for (std::size_t k = 0; k < size; ++k) sums[k] += static_cast<double>(y[k]);
  });
  for (const double sum : sums) means_.push_back(sum / static_cast<double>(training_->size()));
  for_each_target<float>(*training_, [&](const float* y) {
    for (std::size_t k = 0; k < size; ++k) squares[k] += std::pow(static_cast<double>(y[k]) - means_[k], 2);
  });
  for (const double square : squares) {
    const double deviation = std::sqrt(square / static_cast<double>(training_->size()));
    deviations_.push_back(deviation > 0 ? deviation : 1);
  }
  for (const Dataset** part : {&training_, &validation_, &test_})
    if (*part != nullptr) *part = keep(std::make_unique<StandardisedTargets>(**part, means_, deviations_));
}

Space SearchData::space() const { return Space::of(training_->fields()[0].shape, outputs_, with_classes_); }

std::string SearchData::describe() const {
  return fmt::format("{} training and {} validation samples of {}; {} {}", training_->size(), validation_->size(),
                     to_string(training_->fields()[0].shape), outputs_,
                     with_classes_   ? "classes"
                     : outputs_ == 1 ? "number to predict"
                                     : "numbers to predict");
}

std::uint64_t SearchData::digest() const {
  Digest digest;
  for (const Dataset* part : {training_, validation_, test_}) digest.add(part == nullptr ? 0 : part->digest());
  return digest.value();
}

}  // namespace keelson::search
