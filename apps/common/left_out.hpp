#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/good_samples.hpp"

namespace keelson::app {

/// The data of a run that leaves broken samples out (--skip-broken).
class LeftOut {
 public:
  /// Reads all samples once, unless `most` is 0: then the data stay as they are. The data sets say in broken_files()
  /// why files were left out when they were opened. Rank 0 prints what is left out, and why. Throws InputError on all
  /// ranks if more than `most` files and samples of training and validation data together are broken. The data must
  /// outlive this. Collective.
  template <class FileDataset>
  LeftOut(const FileDataset& training, const FileDataset* validation, std::int64_t most, int threads,
          Communicator& world)
      : all_training_(training), all_validation_(validation), reasons_(training.broken_files()) {
    if (validation)
      reasons_.insert(reasons_.end(), validation->broken_files().begin(), validation->broken_files().end());
    if (most > 0) find_all(most, threads, world);
  }

  const Dataset& training() const { return training_ ? *training_ : all_training_; }  ///< without broken samples
  const Dataset* validation() const {
    return validation_ ? validation_.get() : all_validation_;
  }  ///< the same; may be null
  const std::vector<std::int64_t>& of_training() const { return of_training_; }      ///< numbers of samples, sorted
  const std::vector<std::int64_t>& of_validation() const { return of_validation_; }  ///< the same
  const std::vector<std::string>& reasons() const { return reasons_; }  ///< for each file or sample that is left out

 private:
  void find_all(std::int64_t most, int threads, Communicator& world);
  std::vector<std::int64_t> find(const Dataset& data, std::int64_t most, int threads, Communicator& world);

  const Dataset& all_training_;
  const Dataset* all_validation_;
  std::vector<std::int64_t> of_training_, of_validation_;
  std::unique_ptr<GoodSamples> training_, validation_;  ///< null: all samples are good
  std::vector<std::string> reasons_;
};

}  // namespace keelson::app
