#pragma once

#include <vector>

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/part.hpp"
#include "engine/ops/step_params.hpp"

namespace keelson::ops {

/// The number by which the sum over the pixels of a sample is divided.
enum class PixelMean : std::uint8_t {
  none,     ///< not divided
  all,      ///< number of all pixels
  counted,  ///< number of pixels whose class has a weight other than 0, without those that sampling leaves out on
            ///< average
};

/// Cross entropy of each pixel, for segmentation.
struct PixelLossParams {
  std::vector<float> class_weights;  ///< one for each class; empty: 1 for all
  PixelMean mean = PixelMean::all;   ///< divisor of the sum over the pixels of a sample
  float factor = 1;                  ///< factor of the whole loss
  /// Focal loss (Lin et al. 2017): each pixel's term is multiplied by (1 - p)^focal_gamma, where p is the probability
  /// of its class. 0 or at least 1.
  float focal_gamma = 0;
  /// > 0: in training, a pixel of a class that has n pixels in the sample is counted with the probability min(1,
  /// sampled_pixels / n), so that about the same number of pixels is counted for each class. The Philox random numbers
  /// depend on the seed, the step, and the pixel's position in the global batch. 0: all pixels are counted.
  float sampled_pixels = 0;

  friend bool operator==(const PixelLossParams&, const PixelLossParams&) = default;
};

class PixelCounts;
/// Counts the pixels of each class in each sample: target (N, spatial...) plain s32, counts (N, classes) f64.
struct PixelCountsDesc {
  using Op = PixelCounts;
  TensorDesc target;         ///< class of each pixel; other numbers are not counted
  std::int64_t classes = 1;  ///< 0 to classes - 1

  TensorDesc counts_desc() const { return TensorDesc::plain({target.shape[0], classes}, DType::f64); }
};
/// For the loss of a part of a sample, which needs the counts of all parts.
class PixelCounts : public DescribedPrimitive<PixelCountsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::target, &PixelCountsDesc::target> target;
    Out<K, Role::sums, &PixelCountsDesc::counts_desc> counts;
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class PixelLoss;

/// prediction (N, C, spatial...) f32, the logits, of any strided layout; target (N, spatial...) plain s32, the class of
/// each pixel; weight (N) f32: 1 for a sample that counts, 0 for padding of a short batch. With P pixels of a sample
/// and the weight w of a class:
///
///   loss = inverse_samples * sum_n weight[n] * factor / P * sum_p w[t] * (1 - q)^focal_gamma * -log q,
///   t = target[n, p], q = softmax(prediction[n, :, p])[t]
///
/// where P is replaced according to PixelMean. Of a part, P is the number of pixels of the whole sample, and `loss` is
/// the part's term. A pixel of class -1 is ignored, also in PixelMean::counted; another
/// class outside [0, C) makes the loss NaN.
struct PixelLossDesc {
  using Op = PixelLoss;
  PixelLossParams params;
  TensorDesc prediction;
  bool training = true;      ///< sampled_pixels is used
  std::uint32_t stream = 0;  ///< stream of the random numbers; must differ between the losses of a network
  Part part = {};            ///< of the sample, that prediction and target are

  TensorDesc target_desc() const;  ///< plain s32, (N, spatial...)
  TensorDesc loss_desc() const { return TensorDesc::plain({1}, DType::f64); }
  TensorDesc sample_loss_desc() const { return TensorDesc::plain({prediction.shape[0]}); }
  /// Whether the loss needs the number of pixels of each class in each sample.
  bool counts_classes() const { return params.mean == PixelMean::counted || (training && params.sampled_pixels > 0); }
  PixelCountsDesc counts() const { return {target_desc(), prediction.shape[1]}; }  ///< of the whole sample
  TensorDesc counts_desc() const { return counts().counts_desc(); }                ///< of the operand `counts`
};

class PixelLoss : public DescribedPrimitive<PixelLossDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &PixelLossDesc::prediction> prediction;
    In<K, Role::target, &PixelLossDesc::target_desc> target;
    In<K, Role::sample_weight, undescribed> weight;
    Out<K, Role::loss, &PixelLossDesc::loss_desc> loss;
    OptionalOut<K, Role::diff_src, &PixelLossDesc::prediction, Role::src> diff_prediction;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
    Scratch<K> scratch;
    /// Of a part, if counts_classes(): the numbers of all parts. Without the operand the op counts.
    OptionalIn<K, Role::sums, &PixelLossDesc::counts_desc> counts;
    OptionalOut<K, Role::sample_loss, &PixelLossDesc::sample_loss_desc> sample_loss;
  };
  /// loss: one f64, summed in f64 in a fixed order. diff_prediction: the gradient times LossScale::scale, computed in
  /// the same pass; `loss` is not scaled. sample_loss: the terms of the loss by samples, each with weight and
  /// inverse_samples 1; 0 for a sample of weight 0. `loss` has the same bits with and without sample_loss.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const PixelLossDesc& d);
std::string describe(const PixelCountsDesc& d);  ///< one line for logs and errors

}  // namespace keelson::ops
