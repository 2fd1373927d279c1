#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/target_metrics.hpp"
#include "engine/train/observer.hpp"

namespace keelson::app {

/// Adds up the training targets of the first epoch, and gives their mean to the baseline of each validation. The sums
/// are kept in checkpoints, as RunState::observed "target_sum" (one number per target) and "target_samples". On every
/// rank. What a rank has not added to the others' sums when it is lost is missing there; the mean is then that of the
/// other samples.
class TrainingTargets final : public TrainObserver {
 public:
  /// `target`: a field of `training`, f32. `communicator` null: alone.
  TrainingTargets(const Dataset& training, const std::string& target, Communicator* communicator,
                  MeanBaseline& baseline);
  void on_start(const RunState& s, const std::filesystem::path& resumed_from) override;
  void on_batch(const RunState& s, const Batch& batch) override;
  void on_validation_start(const RunState& s) override;
  void before_checkpoint(RunState& s) override;
  void on_agreement() override;

  /// Of the training that led to this state; empty if no sample was seen yet.
  static std::vector<double> mean(const RunState& s);

 private:
  std::vector<double> merged();

  Communicator* communicator_;
  MeanBaseline& baseline_;
  std::size_t field_ = 0;
  std::vector<double> sums_;   ///< of all ranks: per target, then the number of samples
  std::vector<double> mine_;   ///< of this rank, not in sums_ yet
  std::vector<double> added_;  ///< mine_ of all ranks, which they have not agreed on yet; empty: not added up
};

}  // namespace keelson::app
