#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/optim/optimizer.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson {

/// The factor of Muon's learning rate for a matrix of R rows and C columns, with the names of torch.optim.Muon.
enum class AdjustRate : std::uint8_t {
  original,           ///< sqrt(max(1, R / C)) (Jordan et al. 2024)
  match_rms_adamw,    ///< 0.2 sqrt(max(R, C)): steps as large as AdamW's (Liu et al. 2025, arXiv 2502.16982)
  spectral_unclamped  ///< sqrt(R / C)
};
/// The words for the values of AdjustRate, in their order.
inline constexpr std::string_view adjust_rate_words[] = {"original", "match_rms_adamw", "spectral_unclamped"};

/// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), with the formulas and defaults of
/// torch.optim.Muon: momentum, whose singular values are set to about 1, for the matrices of hidden layers, and AdamW
/// for all other parameters. Formulas: engine/ops/muon.hpp and engine/ops/orthogonalize.hpp. The products are in f32
/// (PyTorch's are in bf16).
///
/// Parameters of two and more dimensions are matrices: the first dimension counts rows, all others together count
/// columns. AdamW moves vectors, and matrices that `adamw` names; if `adamw` is empty, those of embeddings and of last
/// layers (matrices_of_outer_layers()). Weight decay is decoupled for both. Vectors have none unless a group names
/// them.
///
/// States: exp_avg of a matrix is Muon's momentum; exp_avg_sq has no memory for matrices.
struct Muon : Optimizer {
  static constexpr const char* name = "Muon";  ///< see Optimizers
  static constexpr const char* summary =
      "Momentum made orthogonal for the matrices of hidden layers, and AdamW for all other parameters.";  ///< the same

  /// Weight decay 0.1 by default, as in PyTorch.
  Muon() { weight_decay = 0.1f; }

  float momentum = 0.95f;  ///< m = momentum m + (1 - momentum) g
  bool nesterov = true;    ///< the direction is (1 - momentum) g + momentum m in place of m
  /// The coefficients a, b and c of the iteration X = (a I + b A + c A^2) X, A = X X^T.
  float ns_a = 3.4445f, ns_b = -4.7750f, ns_c = 2.0315f;
  int ns_steps = 5;                                ///< number of iterations
  float epsilon = 1e-7f;                           ///< the least norm by which a direction is divided
  AdjustRate adjust_lr_fn = AdjustRate::original;  ///< factor of the learning rate, by the matrix's shape
  /// Names or patterns, as in ParameterGroup, with spaces between them: the matrices that AdamW moves. Empty: those of
  /// embeddings and last layers. A name that no parameter has ("none"): AdamW moves vectors alone.
  std::string adamw;
  float adamw_rate = 1;       ///< AdamW's learning rate divided by Muon's
  float adamw_beta1 = 0.9f,   ///< AdamW's decay rate of the mean of the gradients
      adamw_beta2 = 0.999f,   ///< AdamW's decay rate of the mean of the squared gradients
      adamw_epsilon = 1e-8f;  ///< AdamW's term beside the square root of the second mean

  /// Whether AdamW moves the parameter. `outer`: whether it is among matrices_of_outer_layers().
  bool is_for_adamw(const std::string& parameter, const Shape& shape, bool outer) const;
  /// AdamW's update of a parameter that is_for_adamw(), with the settings of its group.
  ops::UpdateParams adamw_for(const std::string& parameter, const Shape& shape) const;
  /// The factor of the learning rate for a matrix of this shape.
  float rate_for(const Shape& shape) const;
  /// The settings of a matrix's group: learning rate and weight decay.
  ParameterGroup matrix_group(const std::string& parameter) const { return group_of(parameter); }

  bool decoupled_weight_decay() const override { return true; }
  bool needs_whole_parameters() const override { return true; }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  /// Throws InputError if this rank has parts of matrices alone.
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override;
};

}  // namespace keelson
