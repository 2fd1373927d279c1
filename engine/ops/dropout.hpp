#pragma once

#include "engine/ops/operands.hpp"
#include "engine/ops/part.hpp"
#include "engine/ops/step_params.hpp"

namespace keelson::ops {

/// The parameters of dropout.
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
  Layout diff_layout =
      {};          ///< layout of diff_dst if it is a slice, whose strides differ from those of src; any: as src
  Part part = {};  ///< of src (N, C, spatial...), whose elements get the bits of the whole value

  /// Describes the operand diff_dst.
  TensorDesc diff_dst() const { return diff_layout.is_any() ? src : src.with(diff_layout); }
};

/// The mask is computed again from the counter in backward: element (row r, plain offset j within the row) of this rank
/// is kept if philox::uniform({seed, stream, step}, (sample_offset * rows_per_sample + r) * row_elements + j) >= rate.
/// Of a part, j and row_elements are those of the whole value.
class Dropout : public DescribedPrimitive<DropoutDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &DropoutDesc::src> src;
    Out<K, Role::dst, &DropoutDesc::src, Role::src> dst;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::diff_dst, &DropoutDesc::diff_dst> diff_dst;
    Out<K, Role::diff_src, &DropoutDesc::src, Role::diff_dst> diff_src;  ///< may be diff_dst, if that has src's layout
  };

  virtual void forward(const Forward<Tensors>& args) = 0;
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const DropoutDesc& d);

}  // namespace keelson::ops
