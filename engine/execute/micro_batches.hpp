#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/collective.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/context.hpp"

/// Values that an executor keeps between the micro-batches of a step.
namespace keelson {

/// Sums over the micro-batches of a step, in place. SumOrder::any: one after the other, ((0 + 1) + 2) + ..., with one
/// more array. SumOrder::tree: a binary tree over their numbers, ((0 + 1) + (2 + 3)) + ..., with one more array for
/// each level of the tree, which waits for its other half.
class MicroBatchSums {
 public:
  /// `value`: the memory in which each micro-batch writes its term, and which has the sum after the last one; f32 or
  /// f64, plain. `count`: number of micro-batches; a power of two for a tree. The context must outlive the sums. Throws
  /// OutOfMemory.
  MicroBatchSums(Context& context, const Tensor& value, std::int64_t count, SumOrder order);
  /// Adds the term of a micro-batch. To be called with the numbers 0, 1, ... count - 1 in this order.
  void add(std::int64_t number);

 private:
  Device& device_;
  Tensor value_;
  std::int64_t count_;
  SumOrder order_;
  std::shared_ptr<ops::Sum> sum_;
  std::vector<Tensor> waiting_;  ///< tree: by level, the sum over 2^level micro-batches; else: the sum so far
};

/// A recurrent state for all micro-batches. The plan computes one micro-batch at a time.
class MicroBatchState {
 public:
  /// `value`: like the state of one micro-batch, which forward reads; `count`: number of micro-batches. Throws
  /// OutOfMemory.
  MicroBatchState(Context& context, const Tensor& value, std::int64_t count, const std::string& name);
  /// To be called before forward: `value`, which forward reads, becomes the state of this micro-batch.
  void load(std::int64_t number, const Tensor& value);
  /// To be called after forward: stores the state that forward has written, for carry().
  void keep(std::int64_t number, const Tensor& next);
  void carry();                               ///< the stored states become the states of all micro-batches
  void reset();                               ///< all states become zero
  const Tensor& all() const { return all_; }  ///< (count * N, ...) the states of all micro-batches, in their order

 private:
  void* part(const Tensor& of, std::int64_t number) const;

  Device& device_;
  std::size_t bytes_;  ///< of a micro-batch
  Tensor all_, kept_;
};

}  // namespace keelson
