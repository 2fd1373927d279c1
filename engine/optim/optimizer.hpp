#pragma once

#include <string>
#include <vector>

#include "engine/plan/update_rule.hpp"

namespace keelson {

/// Settings for some of the parameters. For each parameter, the first group with a pattern that matches the parameter's
/// name is used. A parameter without a group has the optimizer's own settings.
struct ParameterGroup {
  /// Names of parameters, "dense1/weights", or names with a star at the end, `dense*`, or at the start, `*bias`.
  std::vector<std::string> patterns;
  float weight_decay = 0;   ///< replaces the optimizer's weight decay
  float lr_multiplier = 1;  ///< factor on the learning rate of the schedule
};

/// How parameters change in a step: the rule that plans carry out, and the settings that all optimizers have. A new
/// optimizer is a class of this kind in engine/optim, plus the kernels that its calls need.
struct Optimizer : UpdateRule {
  float weight_decay = 0;              ///< of parameters that no group names
  std::vector<ParameterGroup> groups;  ///< settings for some of the parameters
  float clip_norm = 0;                 ///< > 0: all gradients are scaled by min(1, clip_norm / norm of all gradients)

  /// One line for logs, checkpoints and the comparison of ranks: the name first, then all settings that are in use.
  virtual std::string to_string() const = 0;

 protected:
  /// The group of a parameter; null if no group matches.
  const ParameterGroup* find_group(const std::string& parameter) const;
  /// The group of a parameter, or a group of the optimizer's settings if no group matches. `decays` false: without
  /// weight decay in that case.
  ParameterGroup group_of(const std::string& parameter, bool decays = true) const;
  bool decays() const;                  ///< whether any parameter has weight decay
  std::string shared_settings() const;  ///< end of to_string(): ", weight decay 0.1, clip norm 1"
};

}  // namespace keelson
