#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/subcommand.hpp"
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
  std::string x = "x", y = "y", layout = "channels-last";
  bool one_per_file = false;
  std::string missing;  ///< a number; empty: missing values are refused
  std::uint64_t split_seed = 1;
};

/// Declares these options. They are stored in the log of a search.
void declare(DataOptions& o, app::Subcommand& subcommand);

/// The data of a search: what the networks train on, what chooses between them, and what no choice depends on.
class SearchData {
 public:
  /// Recognises the form from the names of the files: tables (CSV, Parquet), or arrays (HDF5, NetCDF, NumPy). Without
  /// validation data, a random part of the data is held out. Targets that are numbers are standardised by mean and
  /// deviation of the training samples. Throws InputError. `world` null: this rank alone. Collective.
  SearchData(const DataOptions& options, Communicator* world);
  ~SearchData();
  SearchData(const SearchData&) = delete;

  const Dataset& training() const { return *training_; }                ///< fields "x" and "y"
  const Dataset& validation() const { return *validation_; }            ///< the same
  const Dataset* test() const { return test_; }                         ///< null: there are none
  const std::vector<std::string>& classes() const { return classes_; }  ///< names; empty: not known, or no classes
  std::int64_t outputs() const { return outputs_; }                     ///< classes, or numbers to predict
  Space space() const;                                                  ///< of networks for these data
  std::string describe() const;  ///< "320 training and 80 validation samples of 10 features; 3 classes"
  std::uint64_t digest() const;  ///< of all parts
  /// Mean and deviation of each target over the training samples, by which it is standardised; empty for classes.
  const std::vector<double>& target_means() const { return means_; }
  const std::vector<double>& target_deviations() const { return deviations_; }  ///< the same

 private:
  const Dataset* keep(std::unique_ptr<const Dataset> dataset);
  const Dataset* open_another(const std::string& path, Communicator* world);
  void open(const DataOptions& options, Communicator* world);
  void standardise_targets();
  void count_classes();

  std::vector<std::unique_ptr<const Dataset>> kept_;
  const Dataset *whole_ = nullptr, *training_ = nullptr, *validation_ = nullptr, *test_ = nullptr;
  bool table_ = false, with_classes_ = false;
  std::vector<std::string> classes_;
  std::vector<double> means_, deviations_;
  std::int64_t outputs_ = 1;
};

}  // namespace keelson::search
