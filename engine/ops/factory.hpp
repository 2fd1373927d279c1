#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/ops/combine.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/eltwise.hpp"
#include "engine/ops/embedding.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/pooled_conv.hpp"
#include "engine/ops/recurrent_cell.hpp"
#include "engine/ops/update.hpp"

namespace keelson::ops {

/// A primitive, or the reason why there is none.
template <class Op>
struct Made {
  Made(std::unique_ptr<Op> p) : primitive(std::move(p)) {}   // NOLINT: returning either is the point
  Made(std::string reason) : declined(std::move(reason)) {}  // NOLINT
  std::unique_ptr<Op> primitive;
  std::string declined;
};

/// One backend: asked for each op in turn, it makes the primitive or says why not. It never throws for what it cannot
/// do.
class OpFactory {
 public:
  virtual ~OpFactory() = default;
  virtual std::string_view name() const = 0;

  virtual Made<Conv> make(const ConvDesc&) { return unsupported(); }
  virtual Made<Dense> make(const DenseDesc&) { return unsupported(); }
  virtual Made<Pool> make(const PoolDesc&) { return unsupported(); }
  virtual Made<PooledConvBackward> make(const PooledConvDesc&) { return unsupported(); }
  virtual Made<Eltwise> make(const EltwiseDesc&) { return unsupported(); }
  virtual Made<Dropout> make(const DropoutDesc&) { return unsupported(); }
  virtual Made<Reorder> make(const ReorderDesc&) { return unsupported(); }
  virtual Made<Sum> make(const SumDesc&) { return unsupported(); }
  virtual Made<Concat> make(const ConcatDesc&) { return unsupported(); }
  virtual Made<Softmax> make(const SoftmaxDesc&) { return unsupported(); }
  virtual Made<Embedding> make(const EmbeddingDesc&) { return unsupported(); }
  virtual Made<AddRows> make(const AddRowsDesc&) { return unsupported(); }
  virtual Made<MatMul> make(const MatMulDesc&) { return unsupported(); }
  virtual Made<RecurrentCell> make(const RecurrentCellDesc&) { return unsupported(); }
  virtual Made<Loss> make(const LossDesc&) { return unsupported(); }
  virtual Made<SumSquares> make(const SumSquaresDesc&) { return unsupported(); }
  virtual Made<CheckGradients> make(const CheckGradientsDesc&) { return unsupported(); }
  virtual Made<Update> make(const UpdateDesc&) { return unsupported(); }

 protected:
  static std::string unsupported() { return "this backend has no such op"; }
};

}  // namespace keelson::ops
