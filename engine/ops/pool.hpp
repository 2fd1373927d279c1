#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

/// The result of a window.
enum class PoolKind : std::uint8_t { max, average };

/// Pooling over 1 to 3 spatial dims; one entry per spatial dim. Windows that reach beyond the end of the padded input
/// are dropped (floor).
struct PoolParams {
  PoolKind kind = PoolKind::max;  ///< maximum or mean
  Shape kernel;                   ///< extents of a window
  Shape stride;                   ///< step between windows
  Shape pad_begin;                ///< elements before the first
  Shape pad_end;                  ///< elements after the last
  bool count_padding =
      false;  ///< average: divide by the kernel's size (true) or by the elements inside the input (false)
};

class Pool;

/// src (N, C, spatial...), dst (N, C, spatial'...). dst has the layout of src; the backend chooses it if it is `any`.
struct PoolDesc {
  using Op = Pool;
  PoolParams params;
  TensorDesc src, dst;
  bool training = true;  ///< also makes the backward verb

  TensorDesc diff_src_desc() const { return {src.shape, src.dtype, Layout::any()}; }
  TensorDesc diff_dst_desc() const { return {dst.shape, dst.dtype, Layout::any()}; }
};

/// Logical shape of dst. Throws InputError if a window does not fit.
Shape pool_dst_shape(const Shape& src, const PoolParams& params);

class Pool : public DescribedPrimitive<PoolDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &PoolDesc::src> src;
    Out<K, Role::dst, &PoolDesc::dst> dst;
    OptionalOut<K, Role::workspace, undescribed> workspace;  ///< in training, if workspace_bytes() is not 0
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &PoolDesc::diff_dst_desc> diff_dst;
    OptionalIn<K, Role::workspace, undescribed> workspace;
    Out<K, Role::diff_src, &PoolDesc::diff_src_desc> diff_src;
    Scratch<K> scratch;
  };

  /// Max: of equal largest elements of a window, the first is used; a NaN in the window gives NaN. Max pooling with at
  /// most 256 elements in a window writes to the workspace, for each element of dst and in dst's layout, the argmax
  /// index (u8): the position of the maximum in the window, (z * height + y) * width + x.
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// All of diff_src is written (zero for elements that no window has chosen).
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const PoolDesc& d);

}  // namespace keelson::ops
