#pragma once

#include <string>
#include <vector>

namespace keelson {

class UpdateBuilder;

/// Settings that differ for some parameters. A pattern is a whole name, or has '*' at its end or at its start:
/// "dense1/weights", "dense*", "*/bias". The first group that matches a parameter is its group; without one the
/// optimizer's own settings hold.
struct ParameterGroup {
  std::vector<std::string> patterns;
  float weight_decay = 0;
  float lr_multiplier = 1;
};

/// How parameters move. An optimizer says which state it keeps per parameter, and appends the calls of a step to a
/// plan. A new optimizer is a class of this kind in engine/optim, plus the kernels that its calls need.
///
/// Sums, norms and states are f32 or f64 in every precision. The same gradients give the same bits.
struct Optimizer {
  float weight_decay = 0;              ///< of parameters that no group names
  std::vector<ParameterGroup> groups;  ///< exceptions
  float clip_norm = 0;                 ///< > 0: all gradients are scaled by min(1, clip_norm / norm of all gradients)

  virtual ~Optimizer() = default;

  /// The names of the arrays that belong to each parameter, as PyTorch has them: "momentum_buffer", "exp_avg". Each
  /// array has the parameter's shape and layout and is zero at first. Checkpoints store these arrays.
  virtual std::vector<std::string> state_names() const = 0;

  /// Whether a row of a parameter stays as it is where its gradient is zero. Plans then keep gradients that have few
  /// rows (an embedding's) as rows, and append_updates has to take such gradients. Else all gradients are whole.
  virtual bool moves_only_rows_with_gradient() const { return false; }

  /// Appends the calls of one step. The gradients are those of all ranks then, and checked if the plan checks
  /// gradients.
  virtual void append_updates(UpdateBuilder& builder) const = 0;

  /// One line for logs, checkpoints and the comparison of ranks: the name first, then all settings that are in use.
  virtual std::string to_string() const = 0;

 protected:
  const ParameterGroup* find_group(const std::string& parameter) const;  ///< null: no group matches
  /// Without a match the optimizer's settings, with its weight decay or, if `decays` is false, with none.
  ParameterGroup group_of(const std::string& parameter, bool decays = true) const;
  bool decays() const;                  ///< weight decay of any parameter
  std::string shared_settings() const;  ///< ", weight decay 0.1, clip norm 1"
};

}  // namespace keelson
