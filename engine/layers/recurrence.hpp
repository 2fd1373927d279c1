#pragma once

#include "engine/graph/node_builder.hpp"
#include "engine/layers/layers.hpp"

namespace keelson {

/// All time steps of a recurrent layer as one primitive: per step a matrix product with the recurrent weights, which
/// are rearranged once for all steps, and the fused gates; the gradient of the weights is one product over all steps.
class Recurrence : public ops::Primitive {
 public:
  /// `compute`, `tf32`: of the matrix products, as in ops::MatMulDesc, where a backend has kernels for it. cell.type
  /// that is not f32: the products' operands are of that type; throws Error where no backend multiplies those.
  Recurrence(Context& context, const ops::RecurrentCellDesc& cell, bool training, DType compute, bool tf32);
  /// Whether `context` can make one with this cell.type.
  static bool takes(Context& context, const ops::RecurrentCellDesc& cell);

  const ops::RecurrentCellDesc& cell() const { return desc_; }
  Layout layout(ops::Verb, ops::Role) const override { return Layout::plain({desc_.rows(), desc_.hidden}); }
  std::string name(ops::Verb verb) const override;
  std::size_t scratch_bytes(ops::Verb verb) const override;
  ops::Cost cost(ops::Verb verb) const override;

  /// Operands (shapes and dtypes as in ops::RecurrentCell::Sequence): gates' input parts; gates, may be the same;
  /// state; weights (gates, H) of cell.type; bias or empty; h_prev; saved; next_state; dst; scratch.
  void forward(const Tensor* t);
  /// Operands: gates' activations; gradients of the input parts, may be the same; weights; h_prev; saved; next_state;
  /// diff_dst; gradients of the recurrent parts (gru) or empty; scratch.
  void backward_data(const Tensor* t);
  /// Operands: gradients of the recurrent parts; h_prev; diff_weights; diff_bias or empty; scratch.
  void backward_weights(const Tensor* t);

 private:
  ops::RecurrentCellDesc desc_;
  TensorDesc dense_, hidden_, weights_;  ///< (N, gates), (N, H), (gates, H)
  std::shared_ptr<ops::RecurrentCell> cell_;
  std::shared_ptr<ops::MatMul> step_, step_back_, all_steps_;
  std::shared_ptr<ops::MatMul> bias_sum_;  ///< gru: ones (1, rows) times the candidates' gradients
  Tensor ones_;
};

}  // namespace keelson
