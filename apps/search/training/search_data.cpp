#include "apps/search/training/search_data.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
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

/// A data set whose targets have mean 0 and deviation 1: y (targets), whatever its shape was.
class StandardisedTargets final : public Dataset {
 public:
  StandardisedTargets(const Dataset& data, const std::vector<double>& means, const std::vector<double>& deviations)
      : data_(data), means_(means), deviations_(deviations), fields_(data.fields()) {
    fields_[1].shape = Shape{std::ssize(means)};
  }
  std::int64_t size() const override { return data_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
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
  std::vector<Field> fields_;
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

}  // namespace

SearchData::SearchData(const DataOptions& o, Communicator* world) {
  open(o, world);
  if (!o.validation.empty()) validation_ = open_another(o.validation, world);
  if (!o.test.empty()) test_ = open_another(o.test, world);
  divide(o);
}

SearchData::SearchData(std::shared_ptr<const Dataset> data, std::shared_ptr<const Dataset> validation,
                       const DataOptions& o) {
  for (const auto& part : {data, validation}) {
    if (!part) continue;
    const auto& fields = part->fields();
    if (fields.size() != 2 || fields[0].name != "x" || fields[1].name != "y" || fields[0].dtype != DType::f32)
      refuse("{}: a search needs the fields x (f32) and y, in this order", part->describe());
    if (fields[1].dtype != data->fields()[1].dtype || !(fields[0].shape == data->fields()[0].shape))
      refuse("{}: the validation data have other shapes or types than {}", part->describe(), data->describe());
  }
  with_classes_ = data->fields()[1].dtype == DType::s32;
  if (!o.deduce_classes && o.classes != with_classes_)
    refuse("{}: y is {}. Expected {}", data->describe(), to_string(data->fields()[1].dtype),
           o.classes ? "s32, the numbers of classes" : "f32, numbers to predict");
  whole_ = keep(std::move(data));
  if (validation) validation_ = keep(std::move(validation));
  divide(o);
}

/// Holds validation data out if there are none, and prepares the targets.
void SearchData::divide(const DataOptions& o) {
  training_ = whole_;
  if (validation_ == nullptr) {
    Split split = split_at_random(whole_->size(), o.holdout, o.split_seed);
    if (split.part.empty() || split.rest.empty())
      refuse("{}: too few samples to hold out {} of them for validation; give more data, or --validation",
             whole_->describe(), o.holdout);
    training_ = keep(std::make_shared<SubsetDataset>(*whole_, std::move(split.rest)));
    validation_ = keep(std::make_shared<SubsetDataset>(*whole_, std::move(split.part)));
  }
  if (with_classes_)
    count_classes();
  else
    standardise_targets();
}

SearchData::~SearchData() = default;

const Dataset* SearchData::keep(std::shared_ptr<const Dataset> dataset) {
  kept_.push_back(std::move(dataset));
  return kept_.back().get();
}

void SearchData::open_table(const DataOptions& o, Communicator* world) {
  TableOptions t;
  t.targets = o.targets;
  t.features = o.features;
  t.standardise = true;
  t.missing = number_for_missing(o.missing);
  with_classes_ = t.classes = o.deduce_classes ? has_classes(o.data, t, world) : o.classes;
  auto table = std::make_shared<TableDataset>(o.data, t, world);
  classes_ = table->classes();
  x_means_ = table->means();
  x_deviations_ = table->deviations();
  whole_ = keep(std::move(table));
}

void SearchData::open(const DataOptions& o, Communicator* world) {
  table_ = !o.x.ends_with(".npy") && names_tables(o.data);
  if (table_) {
    open_table(o, world);
    return;
  }
  if (!o.targets.empty() || !o.features.empty())
    refuse("{}: --target and --features choose columns of a table; arrays are chosen by --x and --y", o.data);
  ArrayFileOptions a;
  a.x = o.x;
  a.y = o.y;
  a.layout = layout_of(o.layout);
  a.one_per_file = o.one_per_file;
  with_classes_ = a.classes = o.deduce_classes ? has_whole_numbers(o.data, o.y) : o.classes;
  a.standardise = true;
  a.missing = number_for_missing(o.missing);
  auto arrays = std::make_shared<ArrayFileDataset>(o.data, a, world);
  x_means_ = arrays->means();
  x_deviations_ = arrays->deviations();
  layout_ = o.layout;
  whole_ = keep(std::move(arrays));
}

const Dataset* SearchData::open_another(const std::string& path, Communicator* world) {
  if (table_) return keep(std::make_shared<TableDataset>(path, dynamic_cast<const TableDataset&>(*whole_), world));
  return keep(std::make_shared<ArrayFileDataset>(path, dynamic_cast<const ArrayFileDataset&>(*whole_), "", world));
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
    if (*part != nullptr) *part = keep(std::make_shared<StandardisedTargets>(**part, means_, deviations_));
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

std::string SearchData::scaling() const {
  return nlohmann::json{{"x", {{"means", x_means_}, {"deviations", x_deviations_}}},
                        {"y", {{"means", means_}, {"deviations", deviations_}}},
                        {"classes", classes_},
                        {"layout", layout_}}
      .dump();
}

}  // namespace keelson::search
