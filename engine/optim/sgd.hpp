#pragma once

#include "engine/optim/larc.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Stochastic gradient descent: v = momentum v + g, w -= lr v. Weight decay is L2: it is added to the gradient.
struct Sgd : Optimizer {
  float momentum = 0;     ///< 0: plain gradient descent without optimizer state
  bool nesterov = false;  ///< w -= lr (g + momentum v)
  Larc larc;              ///< scaling of each parameter's gradient; off by default

  /// The settings for the parameter of this name, with those of its group.
  ops::UpdateParams update_for(const std::string& parameter) const;
  std::vector<std::string> state_names() const override;
  /// True without momentum, weight decay and LARC.
  bool moves_only_rows_with_gradient() const override;
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;
};

}  // namespace keelson
