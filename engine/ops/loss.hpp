#pragma once

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

namespace keelson::ops {

/// The formula of a loss; p: prediction, t: target, d = p - t.
enum class LossKind : std::uint8_t {
  mse,            ///< (p - t)^2
  mae,            ///< |p - t|
  huber,          ///< |d| <= delta: d^2 / 2, else delta (|d| - delta / 2)
  gaussian_nll,   ///< d^2 / (2 v) + log(v) / 2 with the variance v = softplus(s) + least_variance
  cross_entropy,  ///< -log softmax(p)[t] over dim 1; target s32 (N) class numbers
  /// -t log sigmoid(p) - (1 - t) log(1 - sigmoid(p)), with 0 <= t <= 1: whether each of several labels holds
  binary_cross_entropy,
  mean,  ///< p, which is a loss already; the target is not read and may be the prediction
};

/// What LossKind::gaussian_nll adds to each variance, so that no target is certain.
inline constexpr float least_variance = 1e-6f;

/// The parameters of a loss.
struct LossParams {
  LossKind kind = LossKind::mse;  ///< formula
  float delta = 1;                ///< for huber
  /// A sample's loss is the sum over its rows, e.g. over the words of a sentence, instead of their mean.
  bool sum_rows = false;
  /// Of cross_entropy, 0 <= label_smoothing < 1: the target class has the probability 1 - label_smoothing, and all F
  /// classes share the rest alike (Szegedy et al. 2016, arXiv 1512.00567, section 7).
  float label_smoothing = 0;

  /// Columns of the prediction for each column of the target: 2 for gaussian_nll, else 1.
  std::int64_t values_per_target() const { return kind == LossKind::gaussian_nll ? 2 : 1; }
};

/// Some of the classes of a cross entropy, of which several ranks have parts.
struct ClassPart {
  std::int64_t first = 0;  ///< number of the first class of this part
  std::int64_t all = 0;    ///< number of classes of all parts; 0: there are no parts
  int parts = 0;           ///< number of parts
};

class ClassSums;
/// prediction (R, F) plain f32: the predictions of a part of the classes.
struct ClassSumsDesc {
  using Op = ClassSums;
  TensorDesc prediction;

  TensorDesc sums_desc() const { return TensorDesc::plain({prediction.shape[0], 2}); }
};
/// What the softmax of all classes needs to know of a part of the classes.
class ClassSums : public DescribedPrimitive<ClassSumsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &ClassSumsDesc::prediction> prediction;
    Out<K, Role::sums, &ClassSumsDesc::sums_desc> sums;
  };
  /// sums[r] = {m, s}, where m is the largest prediction of row r and s the sum of exp(x - m) over its predictions x;
  /// s = 0 for a row of predictions that are all -infinity.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class Loss;

/// prediction (R, F) plain f32 with R = rows_per_sample * N; target (N, F) plain f32, or for cross_entropy s32 class
/// numbers, (N), or (N, rows_per_sample) if each row has its own; weight (N) f32: 1 for a sample that counts, 0 for
/// padding of a short batch; importance (N) f32, or absent: what the losses of samples are multiplied by. Row r is
/// compared with the target of sample r / rows_per_sample.
///
///   loss = inverse_samples * sum_r w[r / rows_per_sample] * mean_f l(prediction[r, f], target[..., f]) /
///   rows_per_sample, with w = 0 where weight is 0, else weight * importance
///
/// with inverse_samples from StepParams (1 / global sample count), so that losses and gradients of all ranks add up to
/// the global mean. For gaussian_nll the prediction has 2 F columns: the means, then s of each target; the constant
/// log(2 pi) / 2 of the density is left out (Nix and Weigend, "Estimating the mean and variance of the target
/// probability distribution", ICNN 1994). For cross_entropy there is no mean over f, and rows with the class -1 are
/// ignored; another class outside [0, F) makes the loss NaN. With sum_rows there is no division by rows_per_sample.
///
/// If the ranks have parts of the classes (class_part.all > 0), the prediction has the classes from class_part.first
/// on, and the loss is this rank's term of the sum: the losses of the rows whose class is in this part. The softmax is
/// that of all classes, by the sums of all parts (ClassSums; m and s of part p are columns 2p and 2p + 1 of
/// class_sums). A class outside [0, class_part.all) makes the loss NaN. (Shoeybi et al. 2019, arXiv 1909.08053,
/// section 3.)
struct LossDesc {
  using Op = Loss;
  LossParams params;
  TensorDesc prediction, target;
  std::int64_t rows_per_sample = 1;  ///< rows of the prediction that belong to one sample
  ClassPart class_part = {};         ///< of cross_entropy

  TensorDesc loss_desc() const { return TensorDesc::plain({1}, DType::f64); }
  TensorDesc sample_loss_desc() const { return TensorDesc::plain({prediction.shape[0] / rows_per_sample}); }
  TensorDesc class_sums_desc() const { return TensorDesc::plain({prediction.shape[0], 2 * class_part.parts}); }
};

class Loss : public DescribedPrimitive<LossDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &LossDesc::prediction> prediction;
    In<K, Role::target, &LossDesc::target> target;
    In<K, Role::sample_weight, undescribed> weight;
    Out<K, Role::loss, &LossDesc::loss_desc> loss;
    OptionalOut<K, Role::diff_src, &LossDesc::prediction, Role::src> diff_prediction;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
    OptionalIn<K, Role::sums, &LossDesc::class_sums_desc> class_sums;  ///< given if the ranks have parts of the classes
    OptionalOut<K, Role::sample_loss, &LossDesc::sample_loss_desc> sample_loss;
    OptionalIn<K, Role::importance, &LossDesc::sample_loss_desc> importance;
  };
  /// loss: one f64, summed in f64 in a fixed order. diff_prediction: the gradient times LossScale::scale, computed in
  /// the same pass; `loss` is not scaled. sample_loss: the terms of the loss by samples, each with weight and
  /// inverse_samples 1, and with its importance; 0 for a sample of weight 0. `loss` has the same bits with and without
  /// sample_loss.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string_view to_string(LossKind k);

std::string describe(const ClassSumsDesc& d);
std::string describe(const LossDesc& d);

}  // namespace keelson::ops
