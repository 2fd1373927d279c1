#pragma once

#include "engine/base/error.hpp"
#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

/// Optimizer arithmetic on flat arrays: parameter, gradient and state have the same dense layout, of any kind. Padding
/// is zero in all of them, and every formula below keeps it zero.
namespace keelson::ops {

class SumSquares;
/// sums[index] = sum of src^2 in f64, in a fixed order.
struct SumSquaresDesc {
  using Op = SumSquares;
  TensorDesc src;
  std::int64_t index = 0;  ///< position of the result in sums
};
class SumSquares : public DescribedPrimitive<SumSquaresDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &SumSquaresDesc::src> src;
    InOut<K, Role::sums, undescribed> sums;  ///< f64; the other elements do not change
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class CheckGradients;
/// Checks whether all gradients of a step are finite, and sets the scale of the next step.
struct CheckGradientsDesc {
  using Op = CheckGradients;
  bool dynamic = false;  ///< true: the scale changes; false: it stays constant
  float growth = 2;      ///< factor of the scale after `interval` good steps in a row
  float backoff = 0.5f;  ///< factor of the scale after a step that is not good; the scale stays between 1 and 2^24
  std::int32_t interval = 2000;  ///< number of good steps
};
class CheckGradients : public DescribedPrimitive<CheckGradientsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::sums, undescribed> sums;
    InOut<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `sums`: f64, any number of sums of squares, whose sum is that of all gradients of all ranks. Writes `unscale` for
  /// the updates that follow and `scale` for the next step.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

/// The kind of the update.
enum class UpdateKind : std::uint8_t { sgd, adam, lars, lion, schedule_free };
/// "sgd", ...
inline std::string_view to_string(UpdateKind k) {
  switch (k) {
    case UpdateKind::sgd:
      return "sgd";
    case UpdateKind::adam:
      return "adam";
    case UpdateKind::lars:
      return "lars";
    case UpdateKind::lion:
      return "lion";
    case UpdateKind::schedule_free:
      return "schedule_free";
  }
  fail("an update of kind {}, expected one that UpdateKind has", static_cast<int>(k));
}

/// LARC's mode: off, scale the gradient, or clip the local rate.
enum class LarcMode : std::uint8_t { none, scale, clip };

/// An optimizer's settings for one parameter.
struct UpdateParams {
  UpdateKind kind = UpdateKind::sgd;  ///< kind of the update
  float weight_decay = 0;             ///< L2: g += weight_decay * w
  float decoupled_decay = 0;  ///< AdamW (Loshchilov & Hutter 2019): w -= lr * decoupled_decay * w before the step
  float momentum = 0;         ///< sgd and lars: v = momentum v + g
  bool nesterov = false;      ///< sgd: step with g + momentum v instead of v
  /// Adam (Kingma & Ba 2015), bias-corrected. Lion (Chen et al. 2023, arXiv 2302.06675) has no epsilon:
  /// w -= lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g, without bias correction; sign(0) = 0.
  ///
  /// schedule_free: AdamW without a schedule (Defazio et al. 2024, arXiv 2405.15682, algorithm 1). The parameter w is
  /// the mean of the points z that the steps reach; gradients are those at the point w + m, m = (1 - beta1) (z - w):
  /// v = beta2 v + (1 - beta2) g^2, u = g / (sqrt(v / (1 - beta2^t)) + epsilon) + decoupled_decay (w + m),
  /// q = m - (1 - beta1) lr u, w += c q / (1 - beta1), m = (1 - c) q, with c = StepParams::averaging_weight.
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float lr_multiplier = 1;  ///< factor of the parameter's group
  float clip_norm = 0;      ///< > 0: all gradients are scaled by min(1, clip_norm / global norm)
  /// LARC (You, Gitman, Ginsburg 2017): local rate r = eta |w| / |g|, or `larc_floor` if a norm is 0 (CosmoFlow:
  /// 1/16000). scale: g *= r. clip: g *= min(r / clip_reference, 1), where clip_reference is the learning rate if
  /// larc_relative, else 1 (CosmoFlow's paper code: not relative).
  LarcMode larc = LarcMode::none;  ///< off, scale or clip
  /// eta and the floor of the local rate.
  float larc_eta = 0.002f, larc_floor = 0;
  bool larc_relative = false;  ///< whether clip_reference is the learning rate
  /// LARS (You, Gitman, Ginsburg 2017): local rate r = lars_eta |w| / (|g| + weight_decay |w| + epsilon), or 1 if |w|
  /// or |g| is 0, or if no norms are given. v = momentum v + lr r (g + weight_decay w), w -= v. Without
  /// rate_in_momentum (MLPerf's variant): v = momentum v + r (g + weight_decay w), w -= lr v. A NaN in a norm reaches
  /// the whole parameter.
  float lars_eta = 0.001f;
  bool rate_in_momentum = true;  ///< whether the momentum includes the learning rate
};

/// How many arrays of state (moment1, moment2) the update has.
inline int moment_count(const UpdateParams& p) {
  switch (p.kind) {
    case UpdateKind::sgd:
    case UpdateKind::lars:
      return p.momentum != 0 ? 1 : 0;
    case UpdateKind::adam:
    case UpdateKind::schedule_free:
      return 2;
    case UpdateKind::lion:
      return 1;
  }
  fail("an update of kind {}, expected one that UpdateKind has", static_cast<int>(p.kind));
}

class Update;
/// All operands have param's layout.
struct UpdateDesc {
  using Op = Update;
  UpdateParams params;
  TensorDesc param;
  /// > 0: the gradient consists of this number of rows of a plain (V, H) parameter, as made by
  /// Embedding::backward_weights. Only these rows of the parameter and of its moments are read and written; momentum
  /// and decay do not change the other rows (as in PyTorch's SparseAdam and TensorFlow's lazy Adam). Not possible with
  /// LARC or LARS, which need the norm of the whole parameter.
  std::int64_t rows = 0;
};

/// Updates one parameter; does nothing if LossScale::skip is set. Order: gradients and norms times LossScale::unscale,
/// global clip, weight decay, LARC, momentum, Adam or Lion, decoupled decay and step with StepParams::learning_rate *
/// lr_multiplier; Adam's bias correction uses t = StepParams::step + 1.
class Update : public DescribedPrimitive<UpdateDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::diff_weights, undescribed> diff;
    OptionalIn<K, Role::rows, undescribed> rows;
    OptionalIn<K, Role::sums, undescribed> global_norm;
    OptionalIn<K, Role::norms, undescribed> norms;
    InOut<K, Role::weights, &UpdateDesc::param> param;
    OptionalInOut<K, Role::moment1, &UpdateDesc::param> moment1;
    OptionalInOut<K, Role::moment2, &UpdateDesc::param> moment2;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// Moments: moment_count() of them; moment1 = v for sgd and lars; moment1 = m, moment2 = v for adam and
  /// schedule_free; moment1 = m for lion.
  /// `global_norm`: f64, any number of sums of squares, whose sum is that of all gradients; absent unless clip_norm is
  /// set. `norms`: two f64, sums of squares of this parameter and of this gradient before clipping; absent unless larc
  /// is set; optional for lars. `rows`: (UpdateDesc::rows) s32 row numbers, each once, or -1; absent for a dense
  /// gradient.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const SumSquaresDesc& d);  ///< one line for logs and errors: parameters, shapes, layouts
std::string describe(const CheckGradientsDesc& d);
std::string describe(const UpdateDesc& d);  ///< one line for logs and errors: parameters, shapes, layouts

}  // namespace keelson::ops
