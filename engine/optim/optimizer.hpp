#pragma once

#include <string>
#include <vector>

#include "engine/ops/update.hpp"

namespace keelson {

/// Settings that differ for some parameters. A pattern is a whole name or ends in '*': "dense1/weights", "dense*",
/// "*/bias" (a leading
/// '*' too). The first group that matches a parameter is its group; without one the defaults hold.
struct ParameterGroup {
  std::vector<std::string> patterns;
  float weight_decay = 0;
  float lr_multiplier = 1;
};

/// How parameters move. A value: the plan turns it into one update call per parameter; its state lives in
/// Parameter::moments.
struct Optimizer {
  enum class Kind { sgd, adam, adamw };
  Kind kind = Kind::sgd;
  float momentum = 0;
  bool nesterov = false;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float weight_decay = 0;  ///< default group; L2 for sgd and adam, decoupled for adamw
  std::vector<ParameterGroup> groups;
  float clip_norm = 0;  ///< > 0: clip by the global norm of all gradients
  ops::LarcMode larc = ops::LarcMode::none;
  float larc_eta = 0.002f, larc_floor = 0;
  bool larc_relative = false;

  int moments() const;                                          ///< arrays of state per parameter: 0, 1 or 2
  ops::UpdateParams update_for(const std::string& name) const;  ///< of the parameter of this name
  /// Whether a row without a gradient stays as it is: not with momentum, Adam or weight decay, nor with LARC's norms.
  bool moves_only_rows_with_gradient() const;
  bool needs_norms() const { return clip_norm > 0 || larc != ops::LarcMode::none; }
  std::string to_string() const;  ///< "sgd momentum 0.9"
};

}  // namespace keelson
