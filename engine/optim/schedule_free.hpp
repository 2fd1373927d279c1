#pragma once

#include "engine/optim/optimizer.hpp"

namespace keelson {

/// AdamW without a schedule of the learning rate (Defazio et al. 2024, "The Road Less Scheduled", arXiv 2405.15682):
/// the parameters are a mean of all points that the steps have reached, so that the rate need not fall and the length
/// of the training need not be known. Formulas: ops::UpdateParams. Take a constant rate with a warm-up, about the size
/// of AdamW's largest or a few times larger.
///
/// In training, layers read another point than the parameters, between the mean and the last point. So statistics of
/// batch normalization belong to that point. Validation, checkpoints and exported networks have the mean.
struct AdamWScheduleFree : UpdateOptimizer {
  static constexpr const char* name = "AdamWScheduleFree";  ///< see Optimizers
  /// See Optimizers.
  static constexpr const char* summary =
      "AdamW whose parameters are a mean over the steps, so that the learning rate need not fall.";

  float beta1 = 0.9f,   ///< place of the gradients' point between the last point (0) and the mean (1); below 1
      beta2 = 0.999f,   ///< decay rate of the mean of the squared gradients
      epsilon = 1e-8f;  ///< added to the square root of the second mean

  bool decoupled_weight_decay() const override { return true; }
  bool reads_ahead() const override { return true; }
  /// Throws InputError for a beta1 that is not from 0 to below 1.
  ops::UpdateParams update_for(const std::string& parameter, const Shape& shape = {}) const override;
  std::vector<std::string> state_names() const override { return {"ahead", "exp_avg_sq"}; }
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override {
    return {{"beta1", &beta1}, {"beta2", &beta2}, {"epsilon", &epsilon}};
  }
  bool needs_norms(const Shape&) const override { return false; }
};

}  // namespace keelson
