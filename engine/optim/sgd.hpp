#pragma once

#include "engine/optim/larc.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Stochastic gradient descent: v = momentum v + g, w -= lr v. Weight decay is L2: it is added to the gradient.
struct Sgd : Optimizer {
  float momentum = 0;
  bool nesterov = false;  ///< steps with g + momentum v
  Larc larc;

  ops::UpdateParams update_for(const std::string& parameter) const;
  std::vector<std::string> state_names() const override;
  /// Not with momentum, weight decay or LARC.
  bool moves_only_rows_with_gradient() const override;
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;
};

}  // namespace keelson
