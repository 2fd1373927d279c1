#pragma once

#include "apps/common/target_metrics.hpp"
#include "engine/train/observer.hpp"

namespace keelson::app {

/// Gives the mean of the training targets to the baseline of validations. On every rank.
class TrainingTargets final : public TrainObserver {
 public:
  explicit TrainingTargets(MeanBaseline& baseline) : baseline_(baseline) {}
  void on_validation_start(const RunState& s) override { baseline_.set_mean(s.target_mean()); }

 private:
  MeanBaseline& baseline_;
};

}  // namespace keelson::app
