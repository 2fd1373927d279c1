#pragma once

#include <string>
#include <vector>

namespace keelson {

class UpdateBuilder;

/// What a plan needs of an optimizer (engine/optim/optimizer.hpp): the state of each parameter, and the calls of a
/// step.
///
/// Sums, norms and states are f32 or f64 in every precision. The same gradients give the same bits.
struct UpdateRule {
  virtual ~UpdateRule() = default;  ///< for derived classes

  /// The names of the arrays that belong to each parameter, as PyTorch has them: "momentum_buffer", "exp_avg". Each
  /// array has the parameter's shape and layout and is zero at first. Checkpoints store these arrays.
  virtual std::vector<std::string> state_names() const = 0;

  /// Whether a row of a parameter does not change where its gradient is zero. If so, plans keep gradients with few
  /// non-zero rows (of an embedding) as rows, and append_updates() has to support such gradients. Else all gradients
  /// are whole.
  virtual bool moves_only_rows_with_gradient() const { return false; }

  /// Appends the calls of one step. The calls run when the gradients are summed over all ranks and, if the plan checks
  /// gradients, checked.
  virtual void append_updates(UpdateBuilder& builder) const = 0;
};

}  // namespace keelson
