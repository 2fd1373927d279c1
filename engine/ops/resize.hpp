#pragma once

#include "engine/ops/operands.hpp"
#include "engine/ops/part.hpp"
#include "engine/tensor/rows.hpp"

namespace keelson::ops {

/// The position in the source of element o of the result, along an axis of `in` elements that becomes `out`. Positions
/// before the first element or after the last are moved to that element.
enum class ResizeGrid : std::uint8_t {
  asymmetric,     ///< o in / out: TensorFlow 1's resize_bilinear with align_corners=False
  half_pixel,     ///< (o + 1/2) in / out - 1/2: PyTorch's and TensorFlow 2's default
  align_corners,  ///< o (in - 1) / (out - 1), and 0 if out is 1
};

class Resize;

/// Bilinear interpolation: src (N, C, H, W) of f32, bf16 or f16 becomes (N, C, rows, columns). src is plain or
/// channels-last without gaps; `any` means channels-last. dst has the layout and dtype of src.
struct ResizeDesc {
  using Op = Resize;
  TensorDesc src;
  std::int64_t rows = 1, columns = 1;        ///< extents of dst
  ResizeGrid grid = ResizeGrid::asymmetric;  ///< positions in src of the elements of dst
  Part src_part = {}, dst_part = {};         ///< both or none: src has the rows that resized_rows() says

  TensorDesc src_desc() const;  ///< with a concrete layout
  TensorDesc dst_desc() const;  ///< (N, C, rows, columns), with a concrete layout
};

/// The rows of a source of `in` rows that the rows `dst` of a result of `out` rows read.
Rows resized_rows(std::int64_t in, std::int64_t out, ResizeGrid grid, const Rows& dst);

/// An element of dst at the position p = i + f of an axis, with i whole and 0 <= f < 1, is (1 - f) src[i] + f src[i +
/// 1], along both axes. A source of one element gives a constant.
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
  /// Each element of diff_src is the sum over the elements of dst that read it.
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const ResizeDesc& d);  ///< one line for logs and errors

}  // namespace keelson::ops
