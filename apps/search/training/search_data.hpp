#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "search/genome/genome.hpp"

namespace keelson::search {

/// Which labelled data a search reads.
struct DataOptions {
  std::string data, validation, test;
  double holdout = 0.2;
  std::vector<std::string> targets, features;
  bool classes = false;
  /// Whether the data say if the target is a class, and `classes` does not matter: a column of names, or of at most 100
  /// different whole numbers from 0; an array of whole numbers.
  bool deduce_classes = false;
  std::string x = "x", y = "y", layout = "channels-last";
  bool one_per_file = false;
  std::string missing;  ///< a number; empty: missing values are refused
  std::uint64_t split_seed = 1;
};

/// The data of a search: what the networks train on, what chooses between them, and what no choice depends on.
class SearchData {
 public:
  /// Recognises the form from the names of the files: tables (CSV, Parquet), or arrays (HDF5, NetCDF, NumPy). Without
  /// validation data, a random part of the data is held out. Targets that are numbers are standardised by mean and
  /// deviation of the training samples. Throws InputError. `world` null: this rank alone. Collective.
  SearchData(const DataOptions& options, Communicator* world);
  /// Of data sets with the fields "x" f32 and "y", f32 or the s32 number of a class. x is taken as it is; y as above.
  /// `validation` null: a part of `data` is held out, as `options` say; other options have no effect. Throws InputError
  /// for other fields.
  SearchData(std::shared_ptr<const Dataset> data, std::shared_ptr<const Dataset> validation,
             const DataOptions& options);
  ~SearchData();
  SearchData(const SearchData&) = delete;

  const Dataset& training() const { return *training_; }                ///< fields "x" and "y"
  const Dataset& validation() const { return *validation_; }            ///< the same
  const Dataset* test() const { return test_; }                         ///< null: there are none
  bool with_classes() const { return with_classes_; }                   ///< whether y is the number of a class
  const std::vector<std::string>& classes() const { return classes_; }  ///< names; empty: not known, or no classes
  std::int64_t outputs() const { return outputs_; }                     ///< classes, or numbers to predict
  Space space() const;                                                  ///< of networks for these data
  std::string describe() const;  ///< "320 training and 80 validation samples of 10 features; 3 classes"
  std::uint64_t digest() const;  ///< of all parts
  /// What a network's numbers mean, as JSON: {"x": {"means": [...], "deviations": [...]}, "y": {...}, "classes":
  /// ["water", ...], "layout": "channels-last"}: x, as the layout has it, becomes (x - mean) / deviation, by channel or
  /// feature; a prediction becomes prediction * deviation + mean. Lists are empty where nothing is standardised, and
  /// where classes have no names. Checkpoints have it as the text "scaling".
  std::string scaling() const;
  /// Mean and deviation of each target over the training samples, by which it is standardised; empty for classes.
  const std::vector<double>& target_means() const { return means_; }
  const std::vector<double>& target_deviations() const { return deviations_; }  ///< the same

 private:
  const Dataset* keep(std::shared_ptr<const Dataset> dataset);
  void divide(const DataOptions& options);
  const Dataset* open_another(const std::string& path, Communicator* world);
  void open(const DataOptions& options, Communicator* world);
  void open_table(const DataOptions& options, Communicator* world);
  void standardise_targets();
  void count_classes();

  std::vector<std::shared_ptr<const Dataset>> kept_;
  const Dataset *whole_ = nullptr, *training_ = nullptr, *validation_ = nullptr, *test_ = nullptr;
  bool table_ = false, with_classes_ = false;
  std::vector<std::string> classes_;
  std::vector<double> means_, deviations_, x_means_, x_deviations_;
  std::string layout_;
  std::int64_t outputs_ = 1;
};

}  // namespace keelson::search
