#pragma once

#include <limits>

#include "engine/ops/lamb.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson {

/// LAMB (You et al. 2020, arXiv 1904.00962), as apex' FusedLAMB has it and MLPerf prescribes it: Adam's direction plus
/// weight decay, scaled to the norm of each parameter. Formulas: engine/ops/lamb.hpp.
///
/// Parameters without weight decay are not scaled, unless nvlamb is set. Parameters of one dimension (biases, scales of
/// normalisation) have no weight decay unless a group names them; adapt_vectors treats them as all others.
struct Lamb : Optimizer {
  Lamb() {
    weight_decay = 0.01f;
    clip_norm = 1;
  }

  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f;
  bool average_gradients = true;  ///< false: m = beta1 m + x, not m = beta1 m + (1 - beta1) x
  bool l2 = false;                ///< weight decay is added to the gradient, not to the direction
  bool nvlamb = false;            ///< NVLAMB: all parameters are scaled
  bool adapt_vectors = false;
  float norm_min = 0, norm_max = std::numeric_limits<float>::infinity();  ///< a parameter's norm is clipped to these

  ops::LambParams params_for(const std::string& parameter, const Shape& shape) const;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;
};

}  // namespace keelson
