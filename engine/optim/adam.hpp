#pragma once

#include "engine/optim/larc.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Adam (Kingma & Ba 2015), bias-corrected. Weight decay is L2: it is added to the gradient.
struct Adam : Optimizer {
  float beta1 = 0.9f,   ///< decay rate of the mean of the gradients
      beta2 = 0.999f,   ///< decay rate of the mean of the squared gradients
      epsilon = 1e-8f;  ///< added to the square root of the second mean
  Larc larc;            ///< scaling of each parameter's gradient; off by default

  /// The settings for the parameter of this name, with those of its group.
  virtual ops::UpdateParams update_for(const std::string& parameter) const;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override { return describe("adam"); }

 protected:
  /// The line of to_string(), beginning with `name`.
  std::string describe(const char* name) const;
};

/// AdamW (Loshchilov & Hutter 2019): Adam whose weight decay is not part of the gradient:
/// w -= lr * weight_decay * w.
struct AdamW : Adam {
  /// As Adam's update_for(), with decoupled weight decay.
  ops::UpdateParams update_for(const std::string& parameter) const override;
  std::string to_string() const override { return describe("adamw"); }
};

}  // namespace keelson
