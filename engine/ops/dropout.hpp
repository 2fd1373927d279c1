#pragma once

#include "engine/ops/primitive.hpp"
#include "engine/ops/step_params.hpp"

namespace keelson::ops {

struct DropoutParams {
  float rate = 0.5f;         ///< probability that an element becomes 0; the others are scaled by 1 / (1 - rate)
  std::uint32_t stream = 0;  ///< philox::stream_of(layer name)
};

class Dropout;

/// src (N, ...): any rank >= 1, strided layout. dst = src in shape and layout.
struct DropoutDesc {
  using Op = Dropout;
  DropoutParams params;
  TensorDesc src;
  std::int64_t rows_per_sample = 1;  ///< rows (dim 0) that one sample of the batch occupies
};

/// The mask is recomputed from the counter in backward: element (row r, plain offset j within the row) of this rank is
/// kept if philox::uniform({seed, stream, step}, (sample_offset * rows_per_sample + r) * row_elements + j) >= rate.
class Dropout : public Primitive {
 public:
  /// `state` holds one StepParams in context memory. dst may be src.
  virtual void forward(const Tensor& state, const Tensor& src, const Tensor& dst) = 0;
  virtual void backward(const Tensor& state, const Tensor& diff_dst, const Tensor& diff_src) = 0;
};

}  // namespace keelson::ops
