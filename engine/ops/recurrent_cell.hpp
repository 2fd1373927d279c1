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
/// N samples of `steps` time steps each; H hidden units. Everything is plain; what is marked `type` is of
/// RecurrentCellDesc::type, f32, bf16 or f16, the rest f32. Matrices of N * steps rows hold step t of sample n in row
/// n * steps + t.
struct RecurrentCellDesc {
  using Op = RecurrentCell;
  CellKind kind = CellKind::lstm;  ///< formulas
  /// N, time steps, H.
  std::int64_t batch = 1, steps = 1, hidden = 1;
  DType type = DType::f32;  ///< of what is multiplied or handed to other layers
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

/// Not a call of plans: Recurrence (engine/layers/recurrence.hpp) runs it step by step.
class RecurrentCell : public DescribedPrimitive<RecurrentCellDesc> {
 public:
  /// A sequence under way.
  struct Sequence {
    Tensor input;       ///< (rows, gates), type: input parts of the gates
    Tensor gates;       ///< (rows, gates), type: their activations; may be `input`
    Tensor recurrent;   ///< (N, gates): recurrent parts of the step at hand
    Tensor bias;        ///< (H) bias_n of gru; empty for lstm
    Tensor h_prev;      ///< (rows, H), type: h before each step
    Tensor saved;       ///< (rows, H): lstm: c before each step; gru: recurrent_n + bias_n
    Tensor next_state;  ///< (N, states, H): h and c after the last step
  };
  /// Takes the state before the first step over into `s`.
  virtual void begin(const Tensor& state, const Sequence& s) = 0;
  /// Step t: writes its gates, row t of dst (rows, H), type, and what step t + 1 or the next state needs.
  virtual void forward(std::int64_t t, const Sequence& s, const Tensor& dst) = 0;

  /// Gradients under way.
  struct Gradients {
    Tensor diff_dst;        ///< (rows, H), type
    Tensor diff_h;          ///< (N, H): what step t + 1 hands back through the recurrent product
    Tensor diff_carry;      ///< (N, H), in and out: lstm: gradient of c; gru: of h past the products
    Tensor diff_input;      ///< (rows, gates), type: of the input parts; may be the sequence's gates
    Tensor diff_recurrent;  ///< (rows, gates), type: of the recurrent parts; lstm: they are diff_input
  };
  /// Step t, from the last one down. Reads gates, saved, next_state (lstm), h_prev (gru) of `s`.
  virtual void backward(std::int64_t t, const Sequence& s, const Gradients& g) = 0;
};

std::string describe(const RecurrentCellDesc& d);

}  // namespace keelson::ops
