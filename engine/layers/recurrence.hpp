#pragma once

#include "engine/layers/layers.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/recurrent_cell.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

/// All time steps of a recurrent layer as one primitive. Each step is a matrix product with the recurrent weights,
/// which are packed once for all steps, and the fused gates. The gradient of the weights is one product over all steps.
class Recurrence : public ops::DescribedPrimitive<ops::RecurrentCellDesc> {
 public:
  /// A shorter name.
  using Cell = ops::RecurrentCellDesc;

  /// `compute`, `tf32`: precision of the matrix products, as in ops::MatMulDesc, if a backend has kernels for it. If
  /// cell.type is not f32, the products' operands have that type; throws Error if no backend can multiply them.
  Recurrence(Context& context, const ops::RecurrentCellDesc& cell, bool training, DType compute, bool tf32);
  /// Whether `context` can make this primitive with this cell.type.
  static bool takes(Context& context, const ops::RecurrentCellDesc& cell);

  Layout layout(ops::Verb, ops::Role) const override { return Layout::plain({desc_.rows(), desc_.hidden}); }
  std::string name(ops::Verb verb) const override;
  std::size_t scratch_bytes(ops::Verb verb) const override;
  ops::Cost cost(ops::Verb verb) const override;

  /// As in ops::RecurrentCell::Sequence. `input`: input parts of the gates.
  template <class K>
  struct Forward {
    static constexpr ops::Verb verb = ops::Verb::forward;
    ops::In<K, ops::Role::src, &Cell::gates_desc> input;
    ops::Out<K, ops::Role::gates, &Cell::gates_desc, ops::Role::src> gates;
    ops::In<K, ops::Role::state, &Cell::state_desc> state;
    ops::In<K, ops::Role::weights, &Cell::weights_desc> weights;
    ops::OptionalIn<K, ops::Role::bias, &Cell::bias_desc> bias;  ///< only for gru
    ops::Out<K, ops::Role::h_prev, &Cell::rows_desc> h_prev;
    ops::Out<K, ops::Role::saved, &Cell::saved_desc> saved;
    ops::Out<K, ops::Role::next_state, &Cell::state_desc> next_state;
    ops::Out<K, ops::Role::dst, &Cell::rows_desc> dst;
    ops::Scratch<K> scratch;
  };
  template <class K>
  struct BackwardData {
    static constexpr ops::Verb verb = ops::Verb::backward_data;
    ops::In<K, ops::Role::gates, &Cell::gates_desc> gates;
    ops::Out<K, ops::Role::diff_gates, &Cell::gates_desc, ops::Role::gates> diff_gates;
    ops::In<K, ops::Role::weights, &Cell::weights_desc> weights;
    ops::In<K, ops::Role::h_prev, &Cell::rows_desc> h_prev;
    ops::In<K, ops::Role::saved, &Cell::saved_desc> saved;
    ops::In<K, ops::Role::next_state, &Cell::state_desc> next_state;
    ops::In<K, ops::Role::diff_dst, &Cell::rows_desc> diff_dst;
    ops::OptionalOut<K, ops::Role::diff_recurrent, &Cell::gates_desc> diff_recurrent;  ///< only for gru
    ops::Scratch<K> scratch;
  };
  template <class K>
  struct BackwardWeights {
    static constexpr ops::Verb verb = ops::Verb::backward_weights;
    ops::In<K, ops::Role::diff_recurrent, &Cell::gates_desc> diff_recurrent;
    ops::In<K, ops::Role::h_prev, &Cell::rows_desc> h_prev;
    ops::Out<K, ops::Role::diff_weights, &Cell::diff_weights_desc> diff_weights;
    ops::OptionalOut<K, ops::Role::diff_bias, &Cell::bias_desc> diff_bias;  ///< only for gru
    ops::Scratch<K> scratch;
  };
  void forward(const Forward<ops::Tensors>& args);
  void backward_data(const BackwardData<ops::Tensors>& args);
  void backward_weights(const BackwardWeights<ops::Tensors>& args);

 private:
  ops::RecurrentCellDesc desc_;
  TensorDesc dense_, hidden_, weights_;  ///< (N, gates), (N, H), (gates, H)
  std::shared_ptr<ops::RecurrentCell> cell_;
  std::shared_ptr<ops::MatMul> step_, step_back_, all_steps_;
  std::shared_ptr<ops::MatMul> bias_sum_;  ///< only for gru: ones (1, rows) times the candidates' gradients
  Tensor ones_;
};

}  // namespace keelson
