#pragma once

#include "engine/ops/primitive.hpp"

namespace keelson::ops {

enum class PoolKind : std::uint8_t { max, average };

/// Pooling over 1 to 3 spatial dims; one entry per spatial dim. Windows that reach over the end of an unpadded input
/// are dropped (floor).
struct PoolParams {
  PoolKind kind = PoolKind::max;
  Shape kernel;
  Shape stride;
  Shape pad_begin;
  Shape pad_end;
  bool count_padding =
      false;  ///< average: divide by the kernel's size (true) or by the elements inside the input (false)
};

class Pool;

/// src (N, C, spatial...), dst (N, C, spatial'...). dst's layout follows src's (or its backend's choice if `any`).
struct PoolDesc {
  using Op = Pool;
  PoolParams params;
  TensorDesc src, dst;
  bool training = true;
};

Shape pool_dst_shape(const Shape& src, const PoolParams& params);

class Pool : public Primitive {
 public:
  /// Max: the first largest element of a window wins; a NaN in the window gives NaN. `workspace` (training only) has
  /// workspace_bytes() bytes, u8. Max pooling with at most 256 elements in a window leaves in it, for each element of
  /// dst and in dst's layout, the argmax index: the place of the maximum in the window: (z * height + y) * width + x.
  virtual void forward(const Tensor& src, const Tensor& dst, const Tensor& workspace) = 0;
  /// diff_src is written whole (zero where no window chose).
  virtual void backward(const Tensor& diff_dst, const Tensor& workspace, const Tensor& diff_src,
                        const Tensor& scratch) = 0;
};

}  // namespace keelson::ops
