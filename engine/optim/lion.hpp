#pragma once

#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Lion (Chen et al. 2023, arXiv 2302.06675): each element moves by the learning rate, in the direction of the sign of
/// beta1 m + (1 - beta1) g. Weight decay is decoupled: w -= lr * weight_decay * w. The paper takes learning rates 3 to
/// 10 times smaller, and weight decays 3 to 10 times larger, than AdamW's.
struct Lion : UpdateOptimizer {
  static constexpr const char* name = "Lion";  ///< see Optimizers
  /// See Optimizers.
  static constexpr const char* summary =
      "The sign of a mean of the gradients, with decoupled weight decay; rates 3 to 10 times smaller than Adam's.";

  float beta1 = 0.9f,  ///< weight of the mean in the direction
      beta2 = 0.99f;   ///< decay rate of the mean of the gradients

  ops::UpdateParams update_for(const std::string& parameter, const Shape& shape = {}) const override;
  bool decoupled_weight_decay() const override { return true; }
  std::vector<std::string> state_names() const override { return {"exp_avg"}; }
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override { return {{"beta1", &beta1}, {"beta2", &beta2}}; }
  bool needs_norms(const Shape&) const override { return false; }
};

}  // namespace keelson
