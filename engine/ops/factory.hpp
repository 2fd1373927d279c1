#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/ops/combine.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/eltwise.hpp"
#include "engine/ops/embedding.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/recurrent_cell.hpp"
#include "engine/ops/update.hpp"

namespace keelson::ops {

/// A primitive, or the reason why there is none.
template <class Op>
struct Expected {
  Expected(std::unique_ptr<Op> p) : primitive(std::move(p)) {}             // NOLINT: returning either is the point
  Expected(std::string reason) : unsupported_reason(std::move(reason)) {}  // NOLINT
  std::unique_ptr<Op> primitive;
  std::string unsupported_reason;
};

/// One backend: asked for each op in turn, it makes the primitive or says why not. It never throws for what it cannot
/// do.
class OpFactory {
 public:
  virtual ~OpFactory() = default;
  virtual std::string_view name() const = 0;

  virtual Expected<Conv> make(const ConvDesc&) { return unsupported(); }
  virtual Expected<Dense> make(const DenseDesc&) { return unsupported(); }
  virtual Expected<Pool> make(const PoolDesc&) { return unsupported(); }
  virtual Expected<ConvMaxPoolBackward> make(const ConvMaxPoolDesc&) { return unsupported(); }
  virtual Expected<Eltwise> make(const EltwiseDesc&) { return unsupported(); }
  virtual Expected<Dropout> make(const DropoutDesc&) { return unsupported(); }
  virtual Expected<Reorder> make(const ReorderDesc&) { return unsupported(); }
  virtual Expected<Sum> make(const SumDesc&) { return unsupported(); }
  virtual Expected<Concat> make(const ConcatDesc&) { return unsupported(); }
  virtual Expected<Softmax> make(const SoftmaxDesc&) { return unsupported(); }
  virtual Expected<Embedding> make(const EmbeddingDesc&) { return unsupported(); }
  virtual Expected<AddRows> make(const AddRowsDesc&) { return unsupported(); }
  virtual Expected<MatMul> make(const MatMulDesc&) { return unsupported(); }
  virtual Expected<RecurrentCell> make(const RecurrentCellDesc&) { return unsupported(); }
  virtual Expected<Loss> make(const LossDesc&) { return unsupported(); }
  virtual Expected<SumSquares> make(const SumSquaresDesc&) { return unsupported(); }
  virtual Expected<CheckGradients> make(const CheckGradientsDesc&) { return unsupported(); }
  virtual Expected<Update> make(const UpdateDesc&) { return unsupported(); }

 protected:
  static std::string unsupported() { return "this backend has no such op"; }
};

}  // namespace keelson::ops
