#pragma once

#include <limits>

#include "engine/ops/lamb.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson {

/// LAMB (You et al. 2020, arXiv 1904.00962) as in apex' FusedLAMB, which MLPerf prescribes: Adam's direction plus
/// weight decay, scaled to the norm of each parameter. Formulas: engine/ops/lamb.hpp.
///
/// Parameters without weight decay are not scaled, unless nvlamb is set. Parameters of one dimension (biases, scales of
/// normalization) have no weight decay unless a group names them. With adapt_vectors they are treated like all other
/// parameters.
struct Lamb : Optimizer {
  static constexpr const char* name = "LAMB";  ///< see Optimizers
  static constexpr const char* summary =
      "Adam's direction, scaled to the norm of each parameter, as MLPerf has it.";  ///< the same

  /// MLPerf's defaults: weight decay 0.01, clip norm 1.
  Lamb() {
    weight_decay = 0.01f;
    clip_norm = 1;
  }

  float beta1 = 0.9f,             ///< decay rate of the mean of the gradients
      beta2 = 0.999f,             ///< decay rate of the mean of the squared gradients
      epsilon = 1e-6f;            ///< added to the square root of the second mean
  bool average_gradients = true;  ///< true: m = beta1 m + (1 - beta1) x; false: m = beta1 m + x
  bool l2 = false;                ///< true: weight decay is added to the gradient; false: to the direction
  bool nvlamb = false;            ///< NVLAMB: all parameters are scaled
  bool adapt_vectors = false;     ///< weight decay also for parameters of one dimension
  float norm_min = 0,             ///< lower limit to which a parameter's norm is clipped
      norm_max = std::numeric_limits<float>::infinity();  ///< upper limit to which a parameter's norm is clipped

  /// The settings for the parameter of this name and shape, with those of its group.
  ops::LambParams params_for(const std::string& parameter, const Shape& shape) const;
  bool decoupled_weight_decay() const override { return !l2; }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override;
};

}  // namespace keelson
