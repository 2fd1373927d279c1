#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

/// Shampoo (Gupta, Koren, Singer 2018, arXiv 1802.09568; with grafting: Anil et al. 2020, arXiv 2002.09018; Shi et al.
/// 2023, arXiv 2309.06497) in ops, since a step consists of matrix products (engine/optim/kronecker.hpp) between
/// element-wise work. f32; the operands of the element-wise ops have one dense layout, in which padding is zero and
/// stays zero.
namespace keelson::ops {

/// The method that decides the length of a step, while Shampoo decides its direction. x is the gradient.
enum class Graft : std::uint8_t {
  none,     ///< Shampoo decides both
  sgd,      ///< x
  adagrad,  ///< x / (sqrt(v) + epsilon), v = sum of x^2
  adam      ///< x / (sqrt(v / (1 - beta2^t)) + epsilon), v = beta2 v + (1 - beta2) x^2
};
/// "none", ...
constexpr std::string_view to_string(Graft g) {
  constexpr std::string_view names[] = {"none", "sgd", "adagrad", "adam"};
  return names[static_cast<int>(g)];
}

/// Settings of the grafted method.
struct GraftParams {
  Graft method = Graft::adam;  ///< which one
  float beta2 = 0.999f;        ///< of adam; 1: as adagrad
  float epsilon = 1e-8f;       ///< of adam and adagrad
  float clip_norm = 0;         ///< > 0: all gradients are scaled by min(1, clip_norm / global norm)
  bool has_state() const { return method == Graft::adagrad || method == Graft::adam; }  ///< whether v exists
};

class GraftDirection;
/// x = gradient times LossScale::unscale and the factor of the global clip; v and the direction of the grafted method
/// as Graft says, t = StepParams::step + 1; the direction is x for none. If LossScale::skip is set, v does not change,
/// and both results are 0.
struct GraftDirectionDesc {
  using Op = GraftDirection;
  GraftParams params;
  TensorDesc param;
};
class GraftDirection : public DescribedPrimitive<GraftDirectionDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::diff_weights, undescribed> diff;
    OptionalIn<K, Role::sums, undescribed> global_norm;
    OptionalInOut<K, Role::moment2, &GraftDirectionDesc::param> exp_avg_sq;
    Out<K, Role::diff_dst, &GraftDirectionDesc::param> gradient;
    Out<K, Role::dst, &GraftDirectionDesc::param> direction;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `global_norm`: as for Update; absent unless clip_norm is set. `exp_avg_sq`: v, absent unless has_state().
  /// `gradient`: x.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class DecayedSum;
/// sum = decay * sum + share * term, with share = 1 - decay, or 1 if decay is 1. `sum`: a matrix whose rows may have
/// gaps between them; `term`: plain, of the same shape. If LossScale::skip is set, nothing changes.
struct DecayedSumDesc {
  using Op = DecayedSum;
  TensorDesc sum;
  float decay = 1;  ///< 1: a sum; below 1: a running mean that begins at zero

  TensorDesc term() const { return TensorDesc::plain(sum.shape); }  ///< desc of the term
};
class DecayedSum : public DescribedPrimitive<DecayedSumDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &DecayedSumDesc::term> term;
    InOut<K, Role::sums, &DecayedSumDesc::sum> sum;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class InverseRoots;
/// Powers of symmetric matrices: dst = (src / correction + epsilon I)^(-1 / root), by eigenvalues and eigenvectors in
/// f64. correction = 1 - decay^t, t = StepParams::step + 1 - delay, or 1 if decay is 1: src is then the running mean of
/// DecayedSum, as it was `delay` steps ago. Only the lower triangles of src are read. Eigenvalues below 2^-24 times the
/// largest one count as that, since f32 has rounded the matrices. A matrix of zeros gives epsilon^(-1 / root) I. NaN
/// goes in and comes out.
///
/// The arrays are stacks of matrices, (count, n, n) f32 plain. Of each matrix only the first `size` rows and columns
/// belong to it. All other elements of dst are zero, and so are those of matrices that are left to other ranks.
/// The results depend on the matrices alone, and not on the number of threads, if the library of the backend keeps
/// them so. The work of a matrix is about 9 size^3.
struct InverseRootsDesc {
  using Op = InverseRoots;
  /// One matrix.
  struct Matrix {
    std::int64_t array = 0;  ///< number in srcs
    std::int64_t index = 0;  ///< number in the stack
    std::int64_t size = 0;   ///< rows and columns
    int root = 2;            ///< the result is the power -1 / root
  };
  std::vector<TensorDesc> srcs;  ///< the stacks; those of dst are alike
  std::vector<Matrix> matrices;  ///< those that this primitive computes
  float epsilon = 0;             ///< above 0
  float decay = 1;               ///< of the running mean; 1: src is a sum
  std::int64_t delay = 0;        ///< steps since src was the mean, 0 or more
};
class InverseRoots : public DescribedPrimitive<InverseRootsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    InList<K, Role::src, &InverseRootsDesc::srcs> srcs;
    OutList<K, Role::dst, &InverseRootsDesc::srcs> dsts;
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// Begins to compute what forward() is asked for `delay` steps later, with copies of `srcs`, and returns at once;
  /// forward() then waits. For speed alone: forward() gives the same without begin(), and if it gets other values. Does
  /// nothing where a backend cannot.
  virtual void begin(const Tensor& step_params, const std::vector<Tensor>& srcs) { (void)step_params, (void)srcs; }
};

class ShampooStep;
/// Moves a parameter. d = direction |graft| / |direction|, or graft if |direction| is 0 or in the steps before `start`;
/// without norms d = direction, and graft before `start`. m = beta1 m + (1 - beta1) d; u = m / (1 - beta1^t), t =
/// StepParams::step + 1; buffer = momentum buffer + u; w -= lr (decoupled_decay w + buffer), lr =
/// StepParams::learning_rate * lr_multiplier. Without beta1, u = d; without momentum, the buffer is u. If
/// LossScale::skip is set, nothing changes.
struct ShampooStepDesc {
  using Op = ShampooStep;
  TensorDesc param;
  float beta1 = 0;            ///< decay of the mean of directions; 0: no such mean
  float momentum = 0;         ///< of the steps; 0: none
  float decoupled_decay = 0;  ///< decoupled weight decay
  float lr_multiplier = 1;    ///< factor of the parameter's group
  std::uint64_t start = 0;    ///< the first step that takes Shampoo's direction
};
class ShampooStep : public DescribedPrimitive<ShampooStepDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &ShampooStepDesc::param> direction;
    In<K, Role::diff_dst, &ShampooStepDesc::param> graft;
    OptionalIn<K, Role::norms, undescribed> norms;
    InOut<K, Role::weights, &ShampooStepDesc::param> param;
    OptionalInOut<K, Role::moment1, &ShampooStepDesc::param> exp_avg;
    OptionalInOut<K, Role::moment2, &ShampooStepDesc::param> momentum_buffer;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `norms`: two f64, the sums of squares of direction and graft. `exp_avg`: m, absent without beta1.
  /// `momentum_buffer`: absent without momentum.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const GraftDirectionDesc& d);  ///< one line for logs and errors
std::string describe(const DecayedSumDesc& d);      ///< the same
std::string describe(const InverseRootsDesc& d);    ///< the same
std::string describe(const ShampooStepDesc& d);     ///< the same

}  // namespace keelson::ops
