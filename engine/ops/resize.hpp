#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

/// Which place of the source an element of the result is, along an axis of `in` elements that becomes `out`. A place
/// before the first element or after the last one is that element's.
enum class ResizeGrid : std::uint8_t {
  asymmetric,     ///< o in / out: TensorFlow 1's resize_bilinear with align_corners=False
  half_pixel,     ///< (o + 1/2) in / out - 1/2: PyTorch's and TensorFlow 2's default
  align_corners,  ///< o (in - 1) / (out - 1), and 0 where out is 1
};

class Resize;

/// Bilinear interpolation: src (N, C, H, W) of f32, bf16 or f16 becomes (N, C, rows, columns). src is plain or
/// channels-last without gaps, or `any`, for channels-last; dst lies as src does and has its dtype.
struct ResizeDesc {
  using Op = Resize;
  TensorDesc src;
  std::int64_t rows = 1, columns = 1;        ///< of dst
  ResizeGrid grid = ResizeGrid::asymmetric;  ///< which places of src the elements of dst are

  TensorDesc src_desc() const;  ///< with its layout
  TensorDesc dst_desc() const;  ///< (N, C, rows, columns), with its layout
};

/// An element of dst at the place p = i + f of an axis, i whole and 0 <= f < 1, is (1 - f) src[i] + f src[i + 1], along
/// both axes. A source of one element gives a constant.
class Resize : public DescribedPrimitive<ResizeDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &ResizeDesc::src_desc> src;
    Out<K, Role::dst, &ResizeDesc::dst_desc> dst;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &ResizeDesc::dst_desc> diff_dst;
    Out<K, Role::diff_src, &ResizeDesc::src_desc> diff_src;
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// Each element of diff_src gathers what it was read for.
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const ResizeDesc& d);  ///< one line for logs and errors

}  // namespace keelson::ops
