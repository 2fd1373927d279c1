#pragma once

#include <limits>

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

/// LAMB (You et al. 2020, arXiv 1904.00962, as apex' FusedLAMB computes it) in two ops, since the step needs the norm
/// of the whole direction: LambDirection, then SumSquares of parameter and direction, then LambStep. f32; parameter,
/// gradient, states and direction have the same dense layout. Padding is zero and stays zero if epsilon > 0.
namespace keelson::ops {

/// LAMB's settings for one parameter.
struct LambParams {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f;  ///< bias-corrected
  float decoupled_decay = 0;                            ///< decoupled weight decay d: the direction includes d w
  float weight_decay = 0;                               ///< L2: x += weight_decay * w, before the moments
  bool average_gradients =
      true;             ///< true: m = beta1 m + (1 - beta1) x; false: m = beta1 m + x, as in apex without averaging
  float clip_norm = 0;  ///< > 0: all gradients are scaled by min(1, clip_norm / global norm)
};

class LambDirection;
/// x = g / max(1, |all g| / clip_norm); m = beta1 m + (1 - beta1) x; v = beta2 v + (1 - beta2) x^2;
/// direction = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decoupled_decay w, t = StepParams::step + 1.
/// Gradients are multiplied by LossScale::unscale first. If LossScale::skip is set, the moments do not change and the
/// direction is 0.
struct LambDirectionDesc {
  using Op = LambDirection;
  LambParams params;
  TensorDesc param;
};
class LambDirection : public DescribedPrimitive<LambDirectionDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::diff_weights, undescribed> diff;
    OptionalIn<K, Role::sums, undescribed> global_norm;
    In<K, Role::weights, &LambDirectionDesc::param> param;
    InOut<K, Role::moment1, &LambDirectionDesc::param> exp_avg;
    InOut<K, Role::moment2, &LambDirectionDesc::param> exp_avg_sq;
    Out<K, Role::dst, &LambDirectionDesc::param> direction;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `global_norm`: as for Update; absent unless clip_norm is set.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class LambStep;
/// w -= lr r direction, with lr = StepParams::learning_rate * lr_multiplier and the trust ratio r = phi(|w|) /
/// |direction|, or 1 if either norm is 0 or no norms are given. phi clips |w| to [norm_min, norm_max]. A NaN in a norm
/// reaches the whole parameter. Nothing changes if LossScale::skip is set.
struct LambStepDesc {
  using Op = LambStep;
  TensorDesc param;
  float lr_multiplier = 1;                                  ///< factor of the parameter's group
  float norm_min = 0;                                       ///< phi's lower bound
  float norm_max = std::numeric_limits<float>::infinity();  ///< phi's upper bound
};
class LambStep : public DescribedPrimitive<LambStepDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &LambStepDesc::param> direction;
    OptionalIn<K, Role::norms, undescribed> norms;
    InOut<K, Role::weights, &LambStepDesc::param> param;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `norms`: two f64, the sums of squares of the parameter and of the direction.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const LambDirectionDesc& d);  ///< one line for logs and errors
std::string describe(const LambStepDesc& d);

}  // namespace keelson::ops
