#pragma once

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

/// The two element-wise ops of Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon, as
/// torch.optim.Muon computes it): MuonDirection, then Orthogonalize (engine/ops/orthogonalize.hpp), then MuonStep. f32;
/// parameter, gradient, momentum and direction have the same dense layout. Padding is zero and stays zero.
namespace keelson::ops {

class MuonDirection;
/// x = g / max(1, |all g| / clip_norm); m = momentum m + (1 - momentum) x; direction = m, with Nesterov's momentum
/// (1 - momentum) x + momentum m. Gradients are multiplied by LossScale::unscale first. If LossScale::skip is set, the
/// momentum does not change and the direction is 0.
struct MuonDirectionDesc {
  using Op = MuonDirection;
  TensorDesc param;
  float momentum = 0.95f;  ///< factor of the momentum of before
  bool nesterov = true;    ///< Nesterov's momentum
  float clip_norm = 0;     ///< > 0: all gradients are scaled by min(1, clip_norm / global norm)
};
class MuonDirection : public DescribedPrimitive<MuonDirectionDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::diff_weights, &MuonDirectionDesc::param> diff;
    OptionalIn<K, Role::sums, undescribed> global_norm;
    InOut<K, Role::moment1, &MuonDirectionDesc::param> momentum;
    Out<K, Role::dst, &MuonDirectionDesc::param> direction;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `global_norm`: as for Update; absent unless clip_norm is set.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class MuonStep;
/// w = (1 - lr decoupled_decay) w - lr rate direction, with lr = StepParams::learning_rate * lr_multiplier. Nothing
/// changes if LossScale::skip is set.
struct MuonStepDesc {
  using Op = MuonStep;
  TensorDesc param;
  float lr_multiplier = 1;    ///< factor of the parameter's group
  float rate = 1;             ///< factor of the direction that depends on the matrix's shape
  float decoupled_decay = 0;  ///< decoupled weight decay
};
class MuonStep : public DescribedPrimitive<MuonStepDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &MuonStepDesc::param> direction;
    InOut<K, Role::weights, &MuonStepDesc::param> param;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const MuonDirectionDesc& d);  ///< one line for logs and errors
std::string describe(const MuonStepDesc& d);

}  // namespace keelson::ops
