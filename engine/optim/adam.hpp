#pragma once

#include "engine/optim/larc.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Adam (Kingma & Ba 2015), bias-corrected. Weight decay is L2: it is added to the gradient.
struct Adam : Optimizer {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  Larc larc;

  virtual ops::UpdateParams update_for(const std::string& parameter) const;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override { return describe("adam"); }

 protected:
  std::string describe(const char* name) const;
};

/// AdamW (Loshchilov & Hutter 2019): Adam whose weight decay is apart from the gradient, w -= lr * weight_decay * w.
struct AdamW : Adam {
  ops::UpdateParams update_for(const std::string& parameter) const override;
  std::string to_string() const override { return describe("adamw"); }
};

}  // namespace keelson
