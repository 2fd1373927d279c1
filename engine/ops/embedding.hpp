#pragma once

#include "engine/ops/primitive.hpp"

/// Look-up tables and their gradients, which are non-zero in the rows that occurred only.
namespace keelson::ops {

class Embedding;
/// ids: any shape, plain s32, M elements; weights (V, H) plain f32. dst and diff_dst are f32, bf16 or f16, as the
/// tensors say that a verb is given.
struct EmbeddingDesc {
  using Op = Embedding;
  TensorDesc ids, weights;
};
class Embedding : public Primitive {
 public:
  /// dst (M, H) plain: dst[m] = weights[ids[m]]; NaN for an id outside [0, V), which stops training visibly.
  virtual void forward(const Tensor& ids, const Tensor& weights, const Tensor& dst) = 0;
  /// The gradient by rows: `rows` (M) s32 gets the distinct ids, rising, then -1; `diff_rows` (M, H) plain the sum of
  /// diff_dst (M, H) over the places of that id, in their order, and 0 where there is no id. Places with an id outside
  /// [0, V) count for nothing. Adding up the gathered gradients of several ranks is the same function.
  virtual void backward(const Tensor& ids, const Tensor& diff_dst, const Tensor& rows, const Tensor& diff_rows,
                        const Tensor& scratch) = 0;
};

class AddRows;
/// A gradient by rows (M; M, H), as Embedding::backward makes it, into a matrix (V, H) plain f32.
struct AddRowsDesc {
  using Op = AddRows;
  TensorDesc diff_rows, dst;
  bool accumulate = true;  ///< onto what dst holds; false: the other rows become 0
};
class AddRows : public Primitive {
 public:
  /// dst[rows[m]] += diff_rows[m]
  virtual void forward(const Tensor& rows, const Tensor& diff_rows, const Tensor& dst) = 0;
};

}  // namespace keelson::ops
