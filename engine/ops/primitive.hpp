#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/tensor/tensor.hpp"

namespace keelson::ops {

/// The work that a primitive can do. Ops without weights have only forward and backward_data.
enum class Verb : std::uint8_t { forward, backward_data, backward_weights };

/// An operand's role in an op, with oneDNN's names.
enum class Role : std::uint8_t {
  src,
  weights,
  bias,
  dst,
  diff_src,
  diff_weights,
  diff_bias,
  diff_dst,
  scratch,
  workspace,    ///< data that forward in training saves for backward
  step_params,  ///< one StepParams
  loss_scale,   ///< one LossScale
  saved,        ///< a value of the forward pass that backward needs
  ids,          ///< row numbers of an embedding
  rows,         ///< row numbers of a sparse gradient
  target,
  sample_weight,
  importance,  ///< what the loss of each sample is multiplied by
  loss,
  sample_loss,  ///< the loss of each sample
  sums,         ///< f64, or as the op says
  diff_sums,
  mean,
  variance,
  norms,
  moment1,
  moment2,
  state,       ///< state of a recurrent layer before the step
  next_state,  ///< state of a recurrent layer after the step
  gates,
  diff_gates,
  diff_recurrent,
  h_prev,
  table,
  channels,
  samples,
  scale,     ///< scale of a batch normalization that is folded into weights
  shift,     ///< shift of a batch normalization that is folded into weights
  dst_bias,  ///< a bias that the op computes
  none,      ///< no operand
};

/// Work of one verb. `bytes` is the least traffic: every operand read or written once.
struct Cost {
  double flops = 0;  ///< 2 for a multiply-add; of a convolution those of its definition, whatever the algorithm
  double bytes = 0;  ///< bytes read and written
  /// FLOPs of the products of the algorithm with the fewest, among those that the backends have for the verb; 0: none
  /// has fewer than `flops`.
  double fewest_flops = 0;

  /// FLOPs of the algorithm with the fewest.
  double least_flops() const { return fewest_flops > 0 ? fewest_flops : flops; }
};

/// Base of all primitives: one op, made once for fixed shapes, dtypes and layouts, bound to one context. Executing a
/// verb never allocates. Tensors given to a verb must have the shape of the description and the layout of layout() for
/// that verb and role. Unless a header says otherwise operands must not overlap, destinations are overwritten, and
/// results are deterministic: the same inputs give the same bits with the same backend and number of threads.
class Primitive {
 public:
  virtual ~Primitive() = default;
  /// The layout of an operand: that of the description, or the primitive's choice if that is `any`.
  virtual Layout layout(Verb verb, Role role) const = 0;
  /// Name of the implementation, e.g. "brgconv:avx512_core".
  virtual std::string name(Verb verb) const = 0;
  /// Bytes of scratch memory (64-byte aligned, contents undefined) that the verb needs.
  virtual std::size_t scratch_bytes(Verb) const { return 0; }
  /// Bytes that forward in training saves for backward (a max-pool's indices, a mask).
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Whether the result is linear in all sources together, without a constant: then the sum of several ranks' results
  /// is the result of the sums of their sources.
  virtual bool is_linear() const { return false; }
  /// Whether the verb does nothing but launch kernels that Device::run_together() may merge with those of other calls.
  virtual bool merges(Verb) const { return false; }
  /// Whether Device::capture() can record the verb. Not if a library waits for the device in it.
  virtual bool can_be_captured(Verb) const { return true; }
  /// The root of the mean square of the results' rounding errors, relative to that of direct sums in f32: about, for
  /// random operands. Only algorithms with other products than those of the definition have another error than 1.
  virtual double relative_error(Verb) const { return 1; }
  /// Work of one verb.
  virtual Cost cost(Verb) const { return {}; }

  /// Name of the backend that made the primitive, and chose its layouts.
  std::string_view backend() const { return backend_; }
  /// Name of the backend whose kernel runs for the verb.
  virtual std::string_view backend_of(Verb) const { return backend_; }
  void set_backend(std::string_view name) { backend_ = name; }  ///< by the context, on creation

 private:
  std::string_view backend_;
};

std::string_view to_string(Verb v);  ///< "forward", ...
std::string_view to_string(Role r);  ///< "diff_src", ...

}  // namespace keelson::ops
