#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson::tabular {

/// Which rows and columns a network reads, and how numbers become inputs.
struct DataOptions {
  std::string train, validation;               ///< `validation` empty: a part of `train` is held out
  double holdout = 0.1;                        ///< this part, at random
  std::uint64_t split_seed = 1;                ///< of the choice
  std::string kind = "auto";                   ///< of the target: "classes", "numbers", or "auto": the data say it
  std::vector<std::string> targets, features;  ///< columns of a table, as TableOptions has them
  std::string x = "x", y = "y";                ///< arrays of files of arrays, as ArrayFileOptions has them
  std::string missing;             ///< a number in the place of missing values of x; empty: these are refused
  std::string scale = "standard";  ///< as Scaling::kind
};

/// How the numbers of rows become what a network reads and predicts. Found on the training rows alone.
struct Scaling {
  /// "none"; "standard": (x - mean) / standard deviation; "log": log(1 + x) of features that are never negative, then
  /// the same; "mean": features that are never negative are divided by their mean, others as standard (Baldi et al.
  /// 2014).
  std::string kind = "none";
  std::vector<std::string> features, targets;  ///< names
  std::vector<double> means, deviations;       ///< of each feature: x becomes (x - mean) / deviation
  std::vector<bool> logs;                      ///< whether log(1 + x) takes the place of x before
  std::vector<std::string> classes;            ///< names, in the order of their numbers; may be empty for arrays
  std::int64_t outputs = 1;                    ///< classes, or numbers to predict
  std::vector<double> target_means, target_deviations;  ///< of numbers to predict; empty for classes

  bool with_classes() const { return target_means.empty(); }
  /// The text "scaling" of checkpoints (docs/file-formats.md), and back. Throws InputError, naming `source`, for
  /// another text.
  std::string to_json() const;
  static Scaling parse(const std::string& json, const std::string& source);
};

/// Rows of a data set as a network reads them: "x" (features) f32, and "y", () s32 or (targets) f32.
class ScaledRows final : public Dataset {
 public:
  /// `rows` has the fields "x" (features) f32 and "y"; `scaling` is copied.
  ScaledRows(std::shared_ptr<const Dataset> rows, Scaling scaling);
  std::int64_t size() const override { return rows_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override;
  std::string file_of(std::int64_t index) const override { return rows_->file_of(index); }
  std::int64_t row_of(std::int64_t index) const override { return rows_->row_of(index); }
  std::string describe() const override { return rows_->describe(); }
  std::uint64_t digest() const override;
  const Scaling& scaling() const { return scaling_; }  ///< as given

 private:
  std::shared_ptr<const Dataset> rows_;
  Scaling scaling_;
  std::vector<float> means_, factors_;
  std::vector<Field> fields_;
};

/// A data set in which one feature is shuffled: row i has the feature of another row, all rows once. For the importance
/// of a feature: a network that uses the feature predicts such rows worse (Breiman 2001, Fisher et al. 2019).
class ShuffledFeature final : public Dataset {
 public:
  /// `rows` must outlive this. The order depends on seed and feature alone.
  ShuffledFeature(const Dataset& rows, std::size_t feature, std::uint64_t seed);
  std::int64_t size() const override { return rows_.size(); }
  const std::vector<Field>& fields() const override { return rows_.fields(); }
  void read(std::int64_t index, void* const* dst) const override;
  std::string describe() const override { return rows_.describe(); }

 private:
  const Dataset& rows_;
  std::size_t feature_;
  std::vector<std::int64_t> order_;
};

/// The rows of a run: those that it learns from, and those that judge it.
class TabularData {
 public:
  /// Recognises tables (CSV, Parquet) and arrays (HDF5, NetCDF, NumPy) by their names. `known`: of the network that
  /// shall read the rows; null: found on the training rows. Throws InputError, also for samples that are not rows of
  /// numbers. `world` null: this rank alone. Collective.
  TabularData(const DataOptions& options, const Scaling* known, Communicator* world);
  const ScaledRows& training() const { return *training_; }      ///< as the network reads them
  const ScaledRows& validation() const { return *validation_; }  ///< the same
  const Scaling& scaling() const { return training_->scaling(); }

 private:
  std::shared_ptr<const ScaledRows> training_, validation_;
};

/// Other rows for a network. `path`: as DataOptions::train. Collective.
std::shared_ptr<const ScaledRows> open_rows(const std::string& path, const DataOptions& options, const Scaling& scaling,
                                            Communicator* world);

}  // namespace keelson::tabular
