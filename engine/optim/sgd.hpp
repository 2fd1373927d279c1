#pragma once

#include "engine/optim/larc.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Stochastic gradient descent: v = momentum v + g, w -= lr v. Weight decay is L2: it is added to the gradient.
struct Sgd : UpdateOptimizer {
  static constexpr const char* name = "SGD";  ///< see Optimizers
  static constexpr const char* summary = "Stochastic gradient descent: v = momentum v + g, w -= lr v.";  ///< the same

  float momentum = 0;     ///< 0: plain gradient descent without optimizer state
  bool nesterov = false;  ///< w -= lr (g + momentum v)
  Larc larc;              ///< scaling of each parameter's gradient; off by default

  ops::UpdateParams update_for(const std::string& parameter, const Shape& shape = {}) const override;
  std::vector<std::string> state_names() const override;
  /// True without momentum, weight decay and LARC.
  bool moves_only_rows_with_gradient() const override;
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override;
  bool needs_norms(const Shape&) const override { return larc.needs_norms(); }
};

}  // namespace keelson
