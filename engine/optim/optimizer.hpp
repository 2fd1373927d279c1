#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/ops/shampoo.hpp"
#include "engine/ops/update.hpp"
#include "engine/plan/update_rule.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson {

/// Settings for some of the parameters. For each parameter, the first group with a pattern that matches the parameter's
/// name is used. A parameter without a group has the optimizer's own settings.
struct ParameterGroup {
  /// Names of parameters, "dense1/weights", or names with a star at the end, `dense*`, or at the start, `*bias`.
  std::vector<std::string> patterns;
  float weight_decay = 0;   ///< replaces the optimizer's weight decay
  float lr_multiplier = 1;  ///< factor on the learning rate of the schedule
};

enum class AdjustRate : std::uint8_t;  // engine/optim/muon.hpp

/// Whether a parameter's name fits a pattern: the name itself, or with a star at the end or at the start.
bool matches_pattern(std::string_view pattern, std::string_view name);

/// A setting of an optimizer, which programs and Python find by its name.
struct OptimizerSetting {
  std::string_view name;  ///< of the member: "momentum"
  /// The member.
  std::variant<float*, bool*, std::int32_t*, std::string*, ops::LarcMode*, ops::Graft*, AdjustRate*> value;

  std::string text() const;  ///< "0.9", "true", "clip"
  /// Sets the member. Throws InputError, naming the setting, for a text that is no value of the member's type. A member
  /// that is a text takes any.
  void read(const std::string& text) const;
};

/// How parameters change in a step: the rule that plans carry out, and the settings that all optimizers have. A new
/// optimizer is a class of this kind in engine/optim and a line in engine/optim/optimizers.hpp, plus the kernels that
/// its calls need (docs/adding-an-optimizer.md).
struct Optimizer : UpdateRule {
  float weight_decay = 0;              ///< of parameters that no group names
  std::vector<ParameterGroup> groups;  ///< settings for some of the parameters
  float clip_norm = 0;                 ///< > 0: all gradients are scaled by min(1, clip_norm / norm of all gradients)

  /// All settings but `groups`: weight_decay and clip_norm, then own_settings(). The pointers are valid as long as the
  /// optimizer.
  std::vector<OptimizerSetting> settings();

  /// Whether weight decay is not part of the gradient: w -= lr * weight_decay * w, as in AdamW.
  virtual bool decoupled_weight_decay() const { return false; }

  /// One line for logs, checkpoints and the comparison of ranks: the name first, then all settings that are in use.
  virtual std::string to_string() const = 0;

 protected:
  /// The settings that this kind of optimizer has beside those of all optimizers.
  virtual std::vector<OptimizerSetting> own_settings() = 0;
  /// The group of a parameter; null if no group matches.
  const ParameterGroup* find_group(const std::string& parameter) const;
  /// The group of a parameter, or a group of the optimizer's settings if no group matches. `decays` false: without
  /// weight decay in that case.
  ParameterGroup group_of(const std::string& parameter, bool decays = true) const;
  bool decays() const;                  ///< whether any parameter has weight decay
  std::string shared_settings() const;  ///< end of to_string(): ", weight decay 0.1, clip norm 1"
};

/// An optimizer whose step is one ops::Update for each parameter.
struct UpdateOptimizer : Optimizer {
  /// The update of the parameter of this name and shape, with the settings of its group.
  virtual ops::UpdateParams update_for(const std::string& parameter, const Shape& shape) const = 0;
  void append_updates(UpdateBuilder& builder) const override;

 protected:
  /// Whether the update of a parameter of this shape reads the norms of the parameter and of its gradient.
  virtual bool needs_norms(const Shape& shape) const = 0;
  /// An update of this kind with the settings of the parameter's group and of all optimizers. `decays`: as group_of().
  ops::UpdateParams update_of_kind(ops::UpdateKind kind, const std::string& parameter, bool decays = true) const;
};

}  // namespace keelson
