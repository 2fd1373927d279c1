#pragma once

#include <fmt/format.h>

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class GroupNorm;
/// Normalization of groups of channels (Wu, He 2018, arXiv 1803.08494), each sample alone: a group has the values of
/// C / groups neighbouring channels at all positions of a sample. One group is layer normalization (Ba et al. 2016,
/// arXiv 1607.06450), of rows (N, F) as in PyTorch's LayerNorm. src is (N, C) plain, or (N, C, spatial...)
/// channels-last without gaps, f32, bf16 or f16. dst, diff_dst and diff_src are like src. scale, shift and their
/// gradients are (C) plain f32. Rows are summed in f32, in blocks, with two passes (first the mean, then the squares of
/// the distances from the mean); groups of several positions by f64 sums of values and squares, as in BatchNormSums.
struct GroupNormDesc {
  using Op = GroupNorm;
  TensorDesc src;
  std::int64_t groups = 1;  ///< divides the number of channels
  float epsilon = 1e-5f;    ///< added to the variance

  TensorDesc channel_desc() const { return TensorDesc::plain({src.shape[1]}); }
  TensorDesc group_desc() const { return TensorDesc::plain({src.shape[0], groups}); }
  TensorDesc diff_sums_desc() const { return TensorDesc::plain({2, src.shape[0], groups}); }
};
/// With x' = (src - mean) / sqrt(variance + epsilon), where mean and variance (the biased one) are those of the group.
class GroupNorm : public DescribedPrimitive<GroupNormDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &GroupNormDesc::src> src;
    In<K, Role::weights, &GroupNormDesc::channel_desc> scale;
    In<K, Role::bias, &GroupNormDesc::channel_desc> shift;
    Out<K, Role::dst, &GroupNormDesc::src, Role::src> dst;  ///< may lie where src is
    Out<K, Role::mean, &GroupNormDesc::group_desc> mean;
    Out<K, Role::variance, &GroupNormDesc::group_desc> variance;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::diff_dst, &GroupNormDesc::src> diff_dst;
    In<K, Role::src, &GroupNormDesc::src> src;
    In<K, Role::weights, &GroupNormDesc::channel_desc> scale;
    In<K, Role::mean, &GroupNormDesc::group_desc> mean;
    In<K, Role::variance, &GroupNormDesc::group_desc> variance;
    Out<K, Role::diff_weights, &GroupNormDesc::channel_desc> diff_scale;
    Out<K, Role::diff_bias, &GroupNormDesc::channel_desc> diff_shift;
    Out<K, Role::diff_sums, &GroupNormDesc::diff_sums_desc> diff_sums;  ///< f32
    /// Only if joins_backward(): the result of backward_data(), which then need not be called. May lie where diff_dst
    /// is.
    OptionalOut<K, Role::diff_src, &GroupNormDesc::src, Role::diff_dst> diff_src;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &GroupNormDesc::src> diff_dst;
    In<K, Role::src, &GroupNormDesc::src> src;
    In<K, Role::weights, &GroupNormDesc::channel_desc> scale;
    In<K, Role::mean, &GroupNormDesc::group_desc> mean;
    In<K, Role::variance, &GroupNormDesc::group_desc> variance;
    In<K, Role::diff_sums, &GroupNormDesc::diff_sums_desc> diff_sums;  ///< of backward_weights
    Out<K, Role::diff_src, &GroupNormDesc::src, Role::diff_dst> diff_src;
    Scratch<K> scratch;
  };
  /// Whether backward_weights() can make diff_src, too, from values that are in the cache then.
  virtual bool joins_backward() const { return false; }
  /// dst = x' scale + shift
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// diff_scale = sum of diff_dst x', diff_shift = sum of diff_dst, over samples and positions; diff_sums[0] = mean of
  /// (scale diff_dst) and diff_sums[1] = mean of (scale diff_dst x') of each group.
  /// (oneDNN's primitive needs no diff_sums for backward_data(), and makes zeros.)
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
  /// diff_src = (scale diff_dst - diff_sums[0] - x' diff_sums[1]) / sqrt(variance + epsilon)
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

/// One line for logs and errors.
inline std::string describe(const GroupNormDesc& d) {
  return fmt::format("group norm of {} groups, src {}, epsilon {}", d.groups, to_string(d.src), d.epsilon);
}

}  // namespace keelson::ops
