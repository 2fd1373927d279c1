#pragma once

#include "engine/ops/operands.hpp"

/// The element-wise part of a recurrent layer's time step; the matrix products around it are Dense and MatMul.
namespace keelson::ops {

/// The formulas of a recurrent layer.
enum class CellKind : std::uint8_t {
  /// Hochreiter & Schmidhuber 1997 with forget gates (Gers et al. 2000), no peepholes. Gates in the order i, f, g, o,
  /// as in PyTorch and oneDNN:
  ///   c = sigmoid(f) c_prev + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c)
  /// where each gate is input part + recurrent part.
  lstm,
  /// Cho et al. 2014, in the form of cuDNN and PyTorch, where the reset gate acts on the recurrent part. Gates in the
  /// order r, z, n:
  ///   n = tanh(input_n + sigmoid(r) (recurrent_n + bias_n)),  h = (1 - sigmoid(z)) n + sigmoid(z) h_prev
  gru,
};

/// Vectors of gates per sample and step.
constexpr std::int64_t gates_of(CellKind k) { return k == CellKind::lstm ? 4 : 3; }
/// Vectors of state per sample: (h, c), or (h).
constexpr std::int64_t states_of(CellKind k) { return k == CellKind::lstm ? 2 : 1; }
std::string_view to_string(CellKind k);

class RecurrentCell;
/// N samples of `steps` time steps each; H hidden units. All tensors are plain. Tensors marked `type` have the dtype
/// RecurrentCellDesc::type (f32, bf16 or f16), all others f32. Matrices of N * steps rows have step t of sample n in
/// row n * steps + t.
struct RecurrentCellDesc {
  using Op = RecurrentCell;
  CellKind kind = CellKind::lstm;  ///< formulas
  /// N, time steps, H.
  std::int64_t batch = 1, steps = 1, hidden = 1;
  DType type = DType::f32;  ///< dtype of tensors that are multiplied or passed to other layers
  /// N * steps.
  std::int64_t rows() const { return batch * steps; }
  /// Gates of all hidden units.
  std::int64_t gates() const { return gates_of(kind) * hidden; }
  /// (N, states, H).
  Shape state_shape() const { return {batch, states_of(kind), hidden}; }

  TensorDesc gates_desc() const { return TensorDesc::plain({rows(), gates()}, type); }
  TensorDesc rows_desc() const { return TensorDesc::plain({rows(), hidden}, type); }
  TensorDesc saved_desc() const { return TensorDesc::plain({rows(), hidden}); }
  TensorDesc state_desc() const { return TensorDesc::plain(state_shape()); }
  TensorDesc weights_desc() const { return TensorDesc::plain({gates(), hidden}, type); }
  TensorDesc diff_weights_desc() const { return TensorDesc::plain({gates(), hidden}); }
  TensorDesc bias_desc() const { return TensorDesc::plain({hidden}); }
};

/// Plans do not call this op: Recurrence (engine/layers/recurrence.hpp) runs it step by step.
class RecurrentCell : public DescribedPrimitive<RecurrentCellDesc> {
 public:
  /// The tensors of a sequence.
  struct Sequence {
    Tensor input;       ///< (rows, gates), type: input parts of the gates
    Tensor gates;       ///< (rows, gates), type: activations of the gates; may be `input`
    Tensor recurrent;   ///< (N, gates): recurrent parts of the present step
    Tensor bias;        ///< (H): bias_n of gru; empty for lstm
    Tensor h_prev;      ///< (rows, H), type: h before each step
    Tensor saved;       ///< (rows, H): lstm: c before each step; gru: recurrent_n + bias_n
    Tensor next_state;  ///< (N, states, H): h and c after the last step
  };
  /// Copies the state before the first step into `s`.
  virtual void begin(const Tensor& state, const Sequence& s) = 0;
  /// Computes step t: writes its gates, row t of dst (rows, H), type, and the values for step t + 1 or the next state.
  virtual void forward(std::int64_t t, const Sequence& s, const Tensor& dst) = 0;

  /// The tensors of the gradients.
  struct Gradients {
    Tensor diff_dst;    ///< (rows, H), type
    Tensor diff_h;      ///< (N, H): gradient from step t + 1 through the recurrent product
    Tensor diff_carry;  ///< (N, H), read and written: lstm: gradient of c; gru: gradient of h that does not go through
                        ///< the products
    Tensor diff_input;  ///< (rows, gates), type: gradient of the input parts; may be the sequence's gates
    Tensor diff_recurrent;  ///< (rows, gates), type: gradient of the recurrent parts; for lstm it is diff_input
  };
  /// Computes the gradients of step t; to be called from the last step to the first. Reads gates, saved, next_state
  /// (lstm), h_prev (gru) of `s`.
  virtual void backward(std::int64_t t, const Sequence& s, const Gradients& g) = 0;
};

std::string describe(const RecurrentCellDesc& d);

}  // namespace keelson::ops
