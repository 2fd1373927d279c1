#pragma once

#include "engine/ops/update.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson {

/// LARS (You, Gitman, Ginsburg 2017, arXiv 1708.03888), for large batches: SGD with momentum in which each parameter
/// has a local rate; ops::UpdateParams has the formulas. Weight decay is L2 and part of the local rate.
///
/// Parameters of one dimension (biases, scales of normalization) have no local rate, and no weight decay unless a group
/// names them. With adapt_vectors they are treated like all other parameters.
struct Lars : Optimizer {
  /// Weight decay 5e-4 by default.
  Lars() { weight_decay = 5e-4f; }

  float momentum = 0.9f;         ///< factor of the previous step in the next one; 0: no optimizer state
  float eta = 0.001f;            ///< trust coefficient
  float epsilon = 0;             ///< added to the denominator of the local rate
  bool rate_in_momentum = true;  ///< false: MLPerf's variant, the learning rate is not in the momentum
  bool adapt_vectors = false;    ///< local rate and weight decay also for parameters of one dimension

  /// The settings for the parameter of this name and shape, with those of its group.
  ops::UpdateParams update_for(const std::string& parameter, const Shape& shape) const;
  std::vector<std::string> state_names() const override;
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;
};

}  // namespace keelson
