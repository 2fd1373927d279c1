#pragma once

#include "engine/optim/larc.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Adam (Kingma & Ba 2015), bias-corrected. Weight decay is L2: it is added to the gradient.
struct Adam : UpdateOptimizer {
  static constexpr const char* name = "Adam";  ///< see Optimizers
  static constexpr const char* summary = "Adam, bias-corrected; weight decay is added to the gradient.";  ///< the same

  float beta1 = 0.9f,   ///< decay rate of the mean of the gradients
      beta2 = 0.999f,   ///< decay rate of the mean of the squared gradients
      epsilon = 1e-8f;  ///< added to the square root of the second mean
  Larc larc;            ///< scaling of each parameter's gradient; off by default

  ops::UpdateParams update_for(const std::string& parameter, const Shape& shape = {}) const override;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  std::string to_string() const override { return describe("adam"); }

 protected:
  std::vector<OptimizerSetting> own_settings() override;
  bool needs_norms(const Shape&) const override { return larc.needs_norms(); }
  /// The line of to_string(), beginning with `name`.
  std::string describe(const char* name) const;
};

/// AdamW (Loshchilov & Hutter 2019): Adam whose weight decay is not part of the gradient:
/// w -= lr * weight_decay * w.
struct AdamW : Adam {
  static constexpr const char* name = "AdamW";  ///< see Optimizers
  static constexpr const char* summary = "Adam with decoupled weight decay: w -= lr * weight_decay * w.";  ///< the same

  bool decoupled_weight_decay() const override { return true; }
  /// As Adam's update_for(), with decoupled weight decay.
  ops::UpdateParams update_for(const std::string& parameter, const Shape& shape = {}) const override;
  std::string to_string() const override { return describe("adamw"); }
};

}  // namespace keelson
