#pragma once

#include "engine/ops/operands.hpp"

/// Look-up tables and their gradients, which are non-zero only in the rows that were looked up.
namespace keelson::ops {

class Embedding;
/// ids: any shape, plain s32, M elements; weights (V, H) plain f32. dst and diff_dst may be f32, bf16 or f16: the dtype
/// of the tensors that a verb is given.
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
  /// The gradient by rows: `rows` gets the distinct ids in rising order, then -1. `diff_rows` gets, for each of these
  /// ids, the sum of diff_dst over its positions, in order, and 0 for -1. Positions with an id outside [0, V) are
  /// ignored. The same function adds up the gathered gradients of several ranks.
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

class AddRows;
/// Adds a gradient by rows (M; M, H), as made by Embedding::backward_weights, to a matrix (V, H) plain f32.
struct AddRowsDesc {
  using Op = AddRows;
  TensorDesc diff_rows, dst;
  bool accumulate = true;  ///< adds to the values of dst; false: the other rows become 0

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
