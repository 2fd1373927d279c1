#pragma once

#include <fmt/format.h>

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class RmsNorm;
/// Root mean square normalization (Zhang, Sennrich 2019, arXiv 1910.07467) of the rows of src (N, F), plain f32, bf16
/// or f16. dst, diff_dst and diff_src are like src. scale and its gradient are (F) plain f32. Sums are f64.
struct RmsNormDesc {
  using Op = RmsNorm;
  TensorDesc src;
  float epsilon = 1e-5f;  ///< added to the mean of the squares

  TensorDesc scale_desc() const { return TensorDesc::plain({src.shape[1]}); }
};
/// With r = 1 / sqrt(mean of src^2 along the row + epsilon).
class RmsNorm : public DescribedPrimitive<RmsNormDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &RmsNormDesc::src> src;
    In<K, Role::weights, &RmsNormDesc::scale_desc> scale;
    Out<K, Role::dst, &RmsNormDesc::src, Role::src> dst;  ///< may lie where src is
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &RmsNormDesc::src> diff_dst;
    In<K, Role::src, &RmsNormDesc::src> src;
    In<K, Role::weights, &RmsNormDesc::scale_desc> scale;
    Out<K, Role::diff_src, &RmsNormDesc::src, Role::diff_dst> diff_src;
  };
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::diff_dst, &RmsNormDesc::src> diff_dst;
    In<K, Role::src, &RmsNormDesc::src> src;
    Out<K, Role::diff_weights, &RmsNormDesc::scale_desc> diff_scale;
    Scratch<K> scratch;
  };
  /// dst = src r scale
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// diff_src = r (scale diff_dst - src r^2 mean of (scale diff_dst src) along the row)
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
  /// diff_scale = sum over rows of diff_dst src r
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

/// One line for logs and errors.
inline std::string describe(const RmsNormDesc& d) {
  return fmt::format("rms norm, src {}, epsilon {}", to_string(d.src), d.epsilon);
}

}  // namespace keelson::ops
