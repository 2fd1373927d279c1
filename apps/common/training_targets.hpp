#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/target_metrics.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/trainer.hpp"

namespace keelson::app {

/// Adds up the training targets of the first epoch, and gives their mean to the baseline of each validation. The sums
/// are kept in checkpoints, as RunState::observed "target_sum" (one number per target) and "target_samples". On every
/// rank. Before a validation or a checkpoint, the sums of all ranks are added up. If a rank is lost before that, the
/// other ranks read all samples since the last time again and share them.
class TrainingTargets final : public TrainObserver {
 public:
  /// For a trainer on `training` with these options. MetricOptions::target must be an f32 field. `training` and
  /// `baseline` must outlive this object. `communicator` null: one rank.
  TrainingTargets(const Dataset& training, const TrainerOptions& options, Communicator* communicator,
                  MeanBaseline& baseline);
  void on_start(const RunState& s, const std::filesystem::path& resumed_from) override;
  void on_batch(const RunState& s, const Batch& batch) override;
  void on_validation_start(const RunState& s) override;
  void before_checkpoint(RunState& s) override;
  void on_agreement() override;

  /// The mean of the targets that were seen up to this state; empty if no sample was seen.
  static std::vector<double> mean(const RunState& s);

 private:
  std::vector<double> merged();
  void sum_over_ranks(std::vector<double>& sums) const;
  /// The sums over this rank's share of the samples at positions [first, end) in the epoch's order.
  std::vector<double> read_again(std::int64_t first, std::int64_t end) const;

  const Dataset& training_;
  std::uint64_t seed_;
  bool shuffle_;
  std::shared_ptr<const SampleTransform> transform_;
  Communicator* communicator_;
  int space_;  ///< ranks of a replica, of which the first counts the samples
  MeanBaseline& baseline_;
  std::size_t field_ = 0;
  std::int64_t done_ = 0;      ///< samples of the first epoch, of all ranks
  std::vector<double> sums_;   ///< of all ranks: per target, then the number of samples
  std::vector<double> mine_;   ///< sums of this rank, not in sums_ yet
  std::vector<double> added_;  ///< sum of mine_ over ranks, before the ranks have agreed; empty: not added up
};

}  // namespace keelson::app
