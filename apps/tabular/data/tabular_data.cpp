#include "apps/tabular/data/tabular_data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "engine/data/epoch_order.hpp"
#include "engine/data/subset_dataset.hpp"
#include "engine/data/tables/table_dataset.hpp"

namespace keelson::tabular {
namespace {

std::optional<float> number_for_missing(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto number = parse_number<float>(text);
  if (!number) refuse("--missing {}: give the number that takes the place of missing values", text);
  return number;
}

/// Rows as the files have them, with the names of their columns.
struct RawRows {
  std::shared_ptr<const Dataset> rows;
  std::vector<std::string> features, targets, classes;
  bool with_classes = false;
};

std::vector<std::string> numbered(const std::string& name, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(count == 1 ? name : fmt::format("{}[{}]", name, i));
  return names;
}

/// `known`: of the network that reads the rows; null: none.
RawRows open_table(const std::string& path, const DataOptions& o, const Scaling* known, Communicator* world) {
  TableOptions t;
  t.targets = known ? known->targets : o.targets;
  t.features = known ? known->features : o.features;
  t.missing = number_for_missing(o.missing);
  t.classes = known ? known->with_classes() : o.kind == "auto" ? has_classes(path, t, world) : o.kind == "classes";
  if (known) t.class_names = known->classes;
  auto table = std::make_shared<TableDataset>(path, t, world);
  return {table, table->features(), table->targets(), table->classes(), t.classes};
}

RawRows open_arrays(const std::string& path, const DataOptions& o, const Scaling* known, Communicator* world) {
  if (!o.targets.empty() || !o.features.empty())
    refuse("{}: --target and --features choose columns of a table; arrays are chosen by --x and --y", path);
  ArrayFileOptions a;
  a.x = o.x;
  a.y = o.y;
  a.layout = ArrayLayout::none;
  a.missing = number_for_missing(o.missing);
  a.classes = known ? known->with_classes() : o.kind == "auto" ? has_whole_numbers(path, o.y) : o.kind == "classes";
  auto arrays = std::make_shared<ArrayFileDataset>(path, a, world);
  const auto& fields = arrays->fields();
  if (fields[0].shape.rank() != 1)
    refuse("{}: a sample of {} has the shape {}. Expected rows of numbers; for images and volumes see keelson-search",
           path, o.x, to_string(fields[0].shape));
  return {arrays, numbered(o.x, fields[0].shape[0]), numbered(o.y, fields[1].shape.elements()), {}, a.classes};
}

RawRows open_raw(const std::string& path, const DataOptions& o, const Scaling* known, Communicator* world) {
  const bool table = !o.x.ends_with(".npy") && names_tables(path);
  RawRows raw = table ? open_table(path, o, known, world) : open_arrays(path, o, known, world);
  if (known && std::ssize(raw.features) != std::ssize(known->features))
    refuse("{}: has {} features, but the network reads {}", path, raw.features.size(), known->features.size());
  return raw;
}

/// Room for a sample of unscaled rows.
class RawSample {
 public:
  explicit RawSample(const Dataset& rows)
      : x_(static_cast<std::size_t>(rows.fields()[0].shape.elements())),
        y_(static_cast<std::size_t>(rows.fields()[1].shape.elements())),
        classes_(rows.fields()[1].dtype == DType::s32) {}
  void read(const Dataset& rows, std::int64_t i) {
    void* const dst[] = {x_.data(), classes_ ? static_cast<void*>(&class_) : y_.data()};
    rows.read(i, dst);
  }
  const std::vector<float>& x() const { return x_; }
  const std::vector<float>& y() const { return y_; }
  std::int32_t label() const { return class_; }

 private:
  std::vector<float> x_, y_;
  std::int32_t class_ = 0;
  bool classes_;
};

/// Means and standard deviations of columns, over rows that come one after the other (Welford 1962).
class Moments {
 public:
  explicit Moments(std::size_t columns) : means_(columns), squares_(columns) {}
  void begin_row() { ++rows_; }
  void add(std::size_t column, double value) {
    const double before = value - means_[column];
    means_[column] += before / static_cast<double>(rows_);
    squares_[column] += before * (value - means_[column]);
  }
  const std::vector<double>& means() const { return means_; }
  /// 1 for a constant column.
  std::vector<double> deviations() const {
    std::vector<double> found;
    for (const double s : squares_) {
      const double deviation = std::sqrt(s / static_cast<double>(std::max<std::int64_t>(1, rows_)));
      found.push_back(deviation > 0 ? deviation : 1);
    }
    return found;
  }

 private:
  std::int64_t rows_ = 0;
  std::vector<double> means_, squares_;
};

std::vector<float> least_values(const Dataset& rows) {
  RawSample sample(rows);
  std::vector<float> least(sample.x().size(), std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    sample.read(rows, i);
    for (std::size_t f = 0; f < least.size(); ++f) least[f] = std::min(least[f], sample.x()[f]);
  }
  return least;
}

void find_feature_scales(const Dataset& rows, Scaling& s) {
  const std::size_t features = s.features.size();
  s.means.assign(features, 0);
  s.deviations.assign(features, 1);
  s.logs.assign(features, false);
  if (s.kind == "none") return;
  const auto least = s.kind == "standard" ? std::vector<float>(features, -1.0f) : least_values(rows);
  if (s.kind == "log")
    for (std::size_t f = 0; f < features; ++f) s.logs[f] = least[f] >= 0;
  Moments moments(features);
  RawSample sample(rows);
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    sample.read(rows, i);
    moments.begin_row();
    for (std::size_t f = 0; f < features; ++f) {
      const auto x = static_cast<double>(sample.x()[f]);
      moments.add(f, s.logs[f] ? std::log1p(x) : x);
    }
  }
  s.means = moments.means();
  s.deviations = moments.deviations();
  if (s.kind != "mean") return;
  for (std::size_t f = 0; f < features; ++f)
    if (least[f] >= 0 && s.means[f] > 0) {
      s.deviations[f] = s.means[f];
      s.means[f] = 0;
    }
}

void find_target_scales(const Dataset& rows, Scaling& s) {
  RawSample sample(rows);
  s.outputs = std::ssize(sample.y());
  Moments moments(sample.y().size());
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    sample.read(rows, i);
    moments.begin_row();
    for (std::size_t t = 0; t < sample.y().size(); ++t) moments.add(t, static_cast<double>(sample.y()[t]));
  }
  s.target_means = moments.means();
  s.target_deviations = moments.deviations();
}

std::int64_t count_classes(const Dataset& rows, std::int64_t named) {
  RawSample sample(rows);
  std::int64_t most = named - 1;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    sample.read(rows, i);
    if (sample.label() < 0)
      refuse("{}: row {} has the class {}; classes are numbers from 0 on", rows.describe(), i, sample.label());
    most = std::max<std::int64_t>(most, sample.label());
  }
  constexpr std::int64_t most_classes = 100'000;
  if (most < 1 || most >= most_classes)
    refuse("{}: {} classes; expected 2 to {}. Are these numbers to predict? Then give --kind numbers", rows.describe(),
           most + 1, most_classes);
  return most + 1;
}

/// Throws InputError for a class that the network does not have.
void check_classes(const Dataset& rows, const Scaling& s) {
  const std::int64_t found = count_classes(rows, 2);
  if (found > s.outputs)
    refuse("{}: has the class {}, but the network has only the classes 0 to {}", rows.describe(), found - 1,
           s.outputs - 1);
}

Scaling find_scaling(const RawRows& raw, const Dataset& training, const std::string& kind) {
  Scaling s;
  s.kind = kind;
  s.features = raw.features;
  s.targets = raw.targets;
  s.classes = raw.classes;
  find_feature_scales(training, s);
  if (raw.with_classes)
    s.outputs = count_classes(*raw.rows, std::ssize(raw.classes));
  else
    find_target_scales(training, s);
  return s;
}

}  // namespace

ScaledRows::ScaledRows(std::shared_ptr<const Dataset> rows, Scaling scaling)
    : rows_(std::move(rows)), scaling_(std::move(scaling)), fields_(rows_->fields()) {
  for (std::size_t f = 0; f < scaling_.means.size(); ++f) {
    means_.push_back(static_cast<float>(scaling_.means[f]));
    factors_.push_back(static_cast<float>(1 / scaling_.deviations[f]));
  }
  if (!scaling_.with_classes()) fields_[1].shape = Shape{scaling_.outputs};
}

void ScaledRows::read(std::int64_t index, void* const* dst) const {
  rows_->read(index, dst);
  auto* const x = static_cast<float*>(dst[0]);
  for (std::size_t f = 0; f < means_.size(); ++f) {
    if (scaling_.logs[f]) x[f] = std::log1p(std::max(0.0f, x[f]));
    x[f] = (x[f] - means_[f]) * factors_[f];
  }
  if (scaling_.with_classes()) return;
  auto* const y = static_cast<float*>(dst[1]);
  for (std::size_t t = 0; t < scaling_.target_means.size(); ++t)
    y[t] = static_cast<float>((static_cast<double>(y[t]) - scaling_.target_means[t]) / scaling_.target_deviations[t]);
}

std::uint64_t ScaledRows::digest() const { return Digest().add(rows_->digest()).add(scaling_.to_json()).value(); }

ShuffledFeature::ShuffledFeature(const Dataset& rows, std::size_t feature, std::uint64_t seed)
    : rows_(rows), feature_(feature) {
  const EpochOrder order(rows.size(), seed, static_cast<std::int64_t>(feature));
  for (std::int64_t i = 0; i < rows.size(); ++i) order_.push_back(order[i]);
}

void ShuffledFeature::read(std::int64_t index, void* const* dst) const {
  rows_.read(order_[static_cast<std::size_t>(index)], dst);
  const float other = static_cast<const float*>(dst[0])[feature_];
  rows_.read(index, dst);
  static_cast<float*>(dst[0])[feature_] = other;
}

TabularData::TabularData(const DataOptions& o, const Scaling* known, Communicator* world) {
  const RawRows raw = open_raw(o.train, o, known, world);
  std::shared_ptr<const Dataset> training = raw.rows, validation;
  if (o.validation.empty()) {
    Split split = split_at_random(raw.rows->size(), o.holdout, o.split_seed);
    if (split.part.empty() || split.rest.empty())
      refuse("{}: too few rows to hold out {} of them for validation; give more data, or --validation",
             raw.rows->describe(), o.holdout);
    // The parts refer to the rows that they are parts of.
    const auto part = [rows = raw.rows](std::vector<std::int64_t> indices) {
      auto* const subset = new SubsetDataset(*rows, std::move(indices));
      return std::shared_ptr<const Dataset>(subset, [rows](const SubsetDataset* s) { delete s; });
    };
    training = part(std::move(split.rest));
    validation = part(std::move(split.part));
  }
  const Scaling scaling = known ? *known : find_scaling(raw, *training, o.scale);
  if (!validation) validation = open_raw(o.validation, o, &scaling, world).rows;
  if (scaling.with_classes())
    for (const auto& rows : {training, validation}) check_classes(*rows, scaling);
  training_ = std::make_shared<ScaledRows>(training, scaling);
  validation_ = std::make_shared<ScaledRows>(validation, scaling);
}

std::shared_ptr<const ScaledRows> open_rows(const std::string& path, const DataOptions& o, const Scaling& scaling,
                                            Communicator* world) {
  const RawRows raw = open_raw(path, o, &scaling, world);
  if (scaling.with_classes()) check_classes(*raw.rows, scaling);
  return std::make_shared<ScaledRows>(raw.rows, scaling);
}

}  // namespace keelson::tabular
