#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ops/combine.hpp"
#include "engine/ops/context.hpp"

/// What an executor keeps between the micro-batches of a step.
namespace keelson {

/// Sums over the micro-batches of a step, in place: in a binary tree over their numbers, ((0 + 1) + (2 + 3)) + ... At
/// most one array for each level of the tree waits for its other half.
class MicroBatchSums {
 public:
  /// `value`: where each micro-batch leaves its term, and the last one finds the sum; f32 or f64, plain. `count`: of
  /// micro-batches, a power of two. The context must outlive the sums. Throws OutOfMemory.
  MicroBatchSums(Context& context, const Tensor& value, std::int64_t count);
  /// Takes the term of a micro-batch. To be called with the numbers 0, 1, ... count - 1 in this order.
  void add(std::int64_t number);

 private:
  Device& device_;
  Tensor value_;
  std::int64_t count_;
  std::shared_ptr<ops::Sum> sum_;
  std::vector<Tensor> waiting_;  ///< by level: the sum over 2^level micro-batches
};

/// A recurrent state of all micro-batches, which the plan computes one by one.
class MicroBatchState {
 public:
  /// `value`: what forward reads, of one micro-batch; `count` micro-batches. Throws OutOfMemory.
  MicroBatchState(Context& context, const Tensor& value, std::int64_t count, const std::string& name);
  void load(std::int64_t number);  ///< before forward: `value` becomes the state of this micro-batch
  /// Behind forward: remembers the state that forward has written, for carry().
  void keep(std::int64_t number, const Tensor& next);
  void carry();                               ///< the states that were kept become the states of all micro-batches
  void reset();                               ///< all states become zero
  const Tensor& all() const { return all_; }  ///< (count * N, ...) the states of all micro-batches, in their order

 private:
  void* part(const Tensor& of, std::int64_t number) const;

  Device& device_;
  Tensor value_, all_, kept_;
};

}  // namespace keelson
