#pragma once

#include "engine/ops/operands.hpp"

/// Look-up tables and their gradients, which are non-zero in the rows that occurred only.
namespace keelson::ops {

class Embedding;
/// ids: any shape, plain s32, M elements; weights (V, H) plain f32. dst and diff_dst are f32, bf16 or f16, as the
/// tensors say that a verb is given.
struct EmbeddingDesc {
  using Op = Embedding;
  TensorDesc ids, weights;

  TensorDesc rows_desc() const { return TensorDesc::plain({ids.elements()}, DType::s32); }
  TensorDesc diff_rows_desc() const { return TensorDesc::plain({ids.elements(), weights.shape[1]}); }
};
class Embedding : public DescribedPrimitive<EmbeddingDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::ids, &EmbeddingDesc::ids> ids;
    In<K, Role::weights, &EmbeddingDesc::weights> weights;
    Out<K, Role::dst, undescribed> dst;  ///< (M, H) plain
  };
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::ids, &EmbeddingDesc::ids> ids;
    In<K, Role::diff_dst, undescribed> diff_dst;  ///< (M, H) plain
    Out<K, Role::rows, &EmbeddingDesc::rows_desc> rows;
    Out<K, Role::diff_weights, &EmbeddingDesc::diff_rows_desc> diff_rows;
    Scratch<K> scratch;
  };

  /// dst[m] = weights[ids[m]]; NaN for an id outside [0, V), which stops training visibly.
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// The gradient by rows: `rows` gets the distinct ids, rising, then -1; `diff_rows` the sum of diff_dst over the
  /// places of that id, in their order, and 0 where there is no id. Places with an id outside [0, V) count for nothing.
  /// Adding up the gathered gradients of several ranks is the same function.
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

class AddRows;
/// A gradient by rows (M; M, H), as Embedding::backward makes it, into a matrix (V, H) plain f32.
struct AddRowsDesc {
  using Op = AddRows;
  TensorDesc diff_rows, dst;
  bool accumulate = true;  ///< onto what dst holds; false: the other rows become 0

  TensorDesc rows_desc() const { return TensorDesc::plain({diff_rows.shape[0]}, DType::s32); }
};
class AddRows : public DescribedPrimitive<AddRowsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::rows, &AddRowsDesc::rows_desc> rows;
    In<K, Role::diff_weights, &AddRowsDesc::diff_rows> diff_rows;
    InOut<K, Role::dst, &AddRowsDesc::dst> dst;
  };
  /// dst[rows[m]] += diff_rows[m]
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const EmbeddingDesc& d);
std::string describe(const AddRowsDesc& d);  ///< one line for logs and errors: parameters, shapes, layouts

}  // namespace keelson::ops
