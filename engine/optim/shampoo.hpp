#pragma once

#include "engine/ops/shampoo.hpp"
#include "engine/optim/kronecker.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Shampoo (Gupta, Koren, Singer 2018, arXiv 1802.09568) with blocks, grafting and roots that ranks share out, as in
/// Anil et al. 2020 (arXiv 2002.09018) and Shi et al. 2023 (arXiv 2309.06497). Names of settings are those of Meta's
/// DistributedShampoo, but for step_momentum.
///
/// Each dimension i of a parameter, or of each of its blocks, has a factor: H_i = beta2 H_i + (1 - beta2) G_i G_i^T, or
/// H_i + G_i G_i^T if beta2 is 1, where G_i is the gradient as a matrix with a row for each index of the dimension.
/// With k dimensions the direction is the gradient times (H_i / (1 - beta2^t) + epsilon I)^(-1 / (2 k)) along each
/// dimension: for a matrix L^(-1/4) g R^(-1/4), for a vector H^(-1/2) g. Its length is that of the grafted method's
/// step, for each parameter. Then come the mean of directions (beta1, bias-corrected), momentum, decoupled weight decay
/// and the step: ops::GraftDirection and ops::ShampooStep have the formulas.
///
/// Factors are updated in every step. The roots are computed every precondition_frequency steps, in f64, each by one of
/// the ranks, and reach the others in one sum. The step whose factors they are uses them already; or, with
/// precondition_delay = d, the step d steps later: meanwhile threads with low priority compute the roots beside the
/// steps, of copies of the factors, which are states, so that a resumed run goes on with the same bits. As long as a
/// parameter has no roots, at the start and after a change of the network, it moves by the grafted method, or with
/// grafting none not at all.
struct Shampoo : Optimizer {
  static constexpr const char* name = "Shampoo";  ///< see Optimizers
  static constexpr const char* summary =
      "A matrix of second moments for each dimension of a parameter; steps as long as Adam's.";  ///< the same

  float beta1 = 0.9f,                        ///< decay rate of the mean of the directions; 0: no mean
      beta2 = 0.999f,                        ///< decay rate of the factors, and of Adam's second mean; 1: sums
      epsilon = 1e-12f,                      ///< added to the factors' diagonals
      step_momentum = 0,                     ///< of the steps, behind the mean of directions; 0: none (Meta: momentum)
      grafting_epsilon = 1e-8f;              ///< added to the square root of the grafted method's second mean
  ops::Graft grafting = ops::Graft::adam;    ///< the method that decides the length of steps
  std::int32_t precondition_frequency = 20,  ///< steps from one computation of the roots to the next
      start_preconditioning_step = 20,       ///< the first step with roots; before: the grafted method
      precondition_delay = 0,                ///< steps in which the roots are computed; below precondition_frequency
      max_preconditioner_dim = 1024;         ///< largest extent of a block
  bool use_merge_dims = true;  ///< small neighbouring dimensions, but for the first one, are one: merge_small_dims()

  /// The blocks of a parameter of this shape.
  KroneckerBlocks blocks_of(const Shape& parameter) const;
  std::vector<std::string> state_names() const override;
  std::optional<Shape> own_state_shape(std::size_t state, const Shape& parameter,
                                       std::int64_t product_inputs) const override;
  bool decoupled_weight_decay() const override { return true; }
  bool needs_whole_parameters() const override { return true; }
  /// Throws InputError for settings out of their ranges, and where no backend computes roots.
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override;

 private:
  class Calls;
  void check_settings() const;
  std::vector<const char*> states_of_dims() const;
  std::uint64_t first_step_with_roots() const {
    return static_cast<std::uint64_t>(start_preconditioning_step) + static_cast<std::uint64_t>(precondition_delay);
  }
};

}  // namespace keelson
