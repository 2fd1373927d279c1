#pragma once

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"

/// Batch normalization (Ioffe, Szegedy 2015, arXiv 1502.03167), in parts, so that ranks can add up their sums between
/// two parts: BatchNormSums, an allreduce, BatchNormStatistics, BatchNorm, RunningStatistics; backward:
/// BatchNormBackward's backward_weights, an allreduce, its backward_data. FoldBatchNorm is for evaluation.
///
/// src is (N, C, spatial...) f32, bf16 or f16 of any strided layout. Mean and variance of a channel are over N and all
/// spatial positions. Sample n counts weight[n] times: weight 0 leaves out the padding of a short batch. If N is a
/// multiple of the number of weights, row n belongs to weight n / (N / weights). Statistics, scale and shift are plain
/// (C) f32; sums are f64, added up in a fixed order.
namespace keelson::ops {

class BatchNormSums;
/// The sums from which a batch's mean and variance are computed.
struct BatchNormSumsDesc {
  using Op = BatchNormSums;
  TensorDesc src;            ///< (N, C, spatial...)
  std::int64_t samples = 1;  ///< number of weights

  TensorDesc weight_desc() const { return TensorDesc::plain({samples}); }
  TensorDesc sums_desc() const { return TensorDesc::plain({2 * src.shape[1] + 1}, DType::f64); }
};
/// Computes the sums over the samples of one rank.
class BatchNormSums : public DescribedPrimitive<BatchNormSumsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &BatchNormSumsDesc::src> src;
    In<K, Role::sample_weight, &BatchNormSumsDesc::weight_desc> weight;
    Out<K, Role::sums, &BatchNormSumsDesc::sums_desc> sums;
    Scratch<K> scratch;
  };
  /// sums[c] = sum of w x, sums[C + c] = sum of w x^2, sums[2 C] = sum of w; all over N and spatial positions.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class BatchNormStatistics;
/// Mean and variance of a batch.
struct BatchNormStatisticsDesc {
  using Op = BatchNormStatistics;
  std::int64_t channels = 1;  ///< C

  TensorDesc sums_desc() const { return TensorDesc::plain({2 * channels + 1}, DType::f64); }
  TensorDesc channel_desc() const { return TensorDesc::plain({channels}); }
};
/// Computes mean and variance from the sums over all samples.
class BatchNormStatistics : public DescribedPrimitive<BatchNormStatisticsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::sums, &BatchNormStatisticsDesc::sums_desc> sums;
    Out<K, Role::mean, &BatchNormStatisticsDesc::channel_desc> mean;
    Out<K, Role::variance, &BatchNormStatisticsDesc::channel_desc> variance;
  };
  /// mean = sums[c] / W, variance = sums[C + c] / W - mean^2 (not below 0), W = sums[2 C]. If W is 0, they are 0 and 1,
  /// so that normalisation does not change the padding that stands in place of samples. With a variance of 0 such
  /// values would grow by 1 / sqrt(epsilon) in each layer, and become infinite in a deep network.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class RunningStatistics;
/// Mean and variance of many batches, for evaluation.
struct RunningStatisticsDesc {
  using Op = RunningStatistics;
  std::int64_t channels = 1;  ///< C
  float momentum = 0.1f;      ///< share of the new batch (as in PyTorch)

  TensorDesc sums_desc() const { return TensorDesc::plain({2 * channels + 1}, DType::f64); }
  TensorDesc channel_desc() const { return TensorDesc::plain({channels}); }
};
/// Makes one step of an exponential moving average.
class RunningStatistics : public DescribedPrimitive<RunningStatisticsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::sums, &RunningStatisticsDesc::sums_desc> sums;
    InOut<K, Role::mean, &RunningStatisticsDesc::channel_desc> mean;
    InOut<K, Role::variance, &RunningStatisticsDesc::channel_desc> variance;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// mean and variance: (1 - momentum) of the old value + momentum of the batch's (BatchNormStatistics). The batch's
  /// variance is unbiased here: times W / (W - 1). Nothing changes if W is at most 1 or LossScale::skip is set.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class BatchNorm;
/// Normalises with given statistics. dst has the dtype and layout of src.
struct BatchNormDesc {
  using Op = BatchNorm;
  TensorDesc src;
  float epsilon = 1e-5f;  ///< added to the variance
  bool relu = false;      ///< dst = max(0, ...); NaN stays NaN

  TensorDesc channel_desc() const { return TensorDesc::plain({src.shape[1]}); }
};
/// Used in training with the batch's statistics, in evaluation with the running statistics.
class BatchNorm : public DescribedPrimitive<BatchNormDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &BatchNormDesc::src> src;
    In<K, Role::mean, &BatchNormDesc::channel_desc> mean;
    In<K, Role::variance, &BatchNormDesc::channel_desc> variance;
    In<K, Role::weights, &BatchNormDesc::channel_desc> scale;
    In<K, Role::bias, &BatchNormDesc::channel_desc> shift;
    Out<K, Role::dst, &BatchNormDesc::src, Role::src> dst;
  };
  /// dst = (src - mean) / sqrt(variance + epsilon) * scale + shift, then ReLU if that is asked for
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class FoldBatchNorm;
/// A batch normalization that follows a convolution without activation, folded into the convolution's weights and bias.
struct FoldBatchNormDesc {
  using Op = FoldBatchNorm;
  TensorDesc weights;     ///< f32, strided: (O, I / groups, k...), or (I, O, k...) of a transposed convolution
  int axis = 0;           ///< dimension of weights that counts the channels O
  float epsilon = 1e-5f;  ///< added to the variance

  TensorDesc channel_desc() const { return TensorDesc::plain({weights.shape[axis]}); }
};
/// With f = scale / sqrt(variance + epsilon): conv(x, w f, (b - mean) f + shift) is the batch normalization of
/// conv(x, w, b). An absent bias is 0. dst has the layout of weights.
class FoldBatchNorm : public DescribedPrimitive<FoldBatchNormDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::weights, &FoldBatchNormDesc::weights> weights;
    OptionalIn<K, Role::bias, &FoldBatchNormDesc::channel_desc> bias;
    In<K, Role::mean, &FoldBatchNormDesc::channel_desc> mean;
    In<K, Role::variance, &FoldBatchNormDesc::channel_desc> variance;
    In<K, Role::scale, &FoldBatchNormDesc::channel_desc> scale;
    In<K, Role::shift, &FoldBatchNormDesc::channel_desc> shift;
    Out<K, Role::dst, &FoldBatchNormDesc::weights> dst;
    Out<K, Role::dst_bias, &FoldBatchNormDesc::channel_desc> dst_bias;
    Scratch<K> scratch;
  };
  /// dst = weights f, where each channel has its own f; dst_bias = (bias - mean) f + shift.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class BatchNormBackward;
/// The gradients in training, where mean and variance depend on src. diff_dst and diff_src have the dtype and layout of
/// src.
struct BatchNormBackwardDesc {
  using Op = BatchNormBackward;
  TensorDesc src;
  std::int64_t samples = 1;  ///< number of weights
  float epsilon = 1e-5f;     ///< as in forward
  bool relu = false;         ///< as in forward

  TensorDesc channel_desc() const { return TensorDesc::plain({src.shape[1]}); }
  TensorDesc weight_desc() const { return TensorDesc::plain({samples}); }
  TensorDesc sums_desc() const { return TensorDesc::plain({2 * src.shape[1] + 1}, DType::f64); }
  TensorDesc diff_sums_desc() const { return TensorDesc::plain({2 * src.shape[1]}, DType::f64); }
};
/// In the formulas, x' = (src - mean) / sqrt(variance + epsilon). With ReLU, g = diff_dst where x' scale + shift > 0,
/// else 0; without, g = diff_dst. The verbs read scale and shift for that: with ReLU they must be given.
class BatchNormBackward : public DescribedPrimitive<BatchNormBackwardDesc> {
 public:
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::src, &BatchNormBackwardDesc::src> src;
    In<K, Role::diff_dst, &BatchNormBackwardDesc::src> diff_dst;
    In<K, Role::mean, &BatchNormBackwardDesc::channel_desc> mean;
    In<K, Role::variance, &BatchNormBackwardDesc::channel_desc> variance;
    Out<K, Role::diff_sums, &BatchNormBackwardDesc::diff_sums_desc> diff_sums;
    Out<K, Role::diff_weights, &BatchNormBackwardDesc::channel_desc> diff_scale;
    Out<K, Role::diff_bias, &BatchNormBackwardDesc::channel_desc> diff_shift;
    OptionalIn<K, Role::weights, &BatchNormBackwardDesc::channel_desc> scale;
    OptionalIn<K, Role::bias, &BatchNormBackwardDesc::channel_desc> shift;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::src, &BatchNormBackwardDesc::src> src;
    In<K, Role::diff_dst, &BatchNormBackwardDesc::src> diff_dst;
    In<K, Role::sample_weight, &BatchNormBackwardDesc::weight_desc> weight;
    In<K, Role::mean, &BatchNormBackwardDesc::channel_desc> mean;
    In<K, Role::variance, &BatchNormBackwardDesc::channel_desc> variance;
    In<K, Role::weights, &BatchNormBackwardDesc::channel_desc> scale;
    In<K, Role::sums, &BatchNormBackwardDesc::sums_desc> sums;
    In<K, Role::diff_sums, &BatchNormBackwardDesc::diff_sums_desc> diff_sums;
    Out<K, Role::diff_src, &BatchNormBackwardDesc::src, Role::diff_dst> diff_src;
    OptionalIn<K, Role::bias, &BatchNormBackwardDesc::channel_desc> shift;
  };
  /// Over this rank's samples: diff_sums[c] = diff_shift = sum of g, diff_sums[C + c] = diff_scale = sum of g x'.
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
  /// diff_src = scale / sqrt(variance + epsilon) (g - weight / W (diff_sums[c] + x' diff_sums[C + c])), with the
  /// sums over all samples, W = sums[2 C].
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const BatchNormSumsDesc& d);
std::string describe(const BatchNormStatisticsDesc& d);
std::string describe(const RunningStatisticsDesc& d);
std::string describe(const BatchNormDesc& d);
std::string describe(const FoldBatchNormDesc& d);
std::string describe(const BatchNormBackwardDesc& d);  ///< one line for logs and errors

}  // namespace keelson::ops
