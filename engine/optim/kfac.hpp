#pragma once

#include "engine/ops/kfac.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/plan/layer_product.hpp"

namespace keelson {

struct UpdatedParameter;

/// K-FAC (Martens and Grosse 2015, arXiv 1503.05671) for dense layers and convolutions (KFC: Grosse and Martens 2016,
/// arXiv 1602.01407), distributed as in Osawa et al. 2019 (arXiv 1811.12019), Pauloski et al. 2020 (arXiv 2007.00784)
/// and KAISA (Pauloski et al. 2021, arXiv 2107.01739). Names of settings are those of kfac-pytorch, the code of the
/// latter two.
///
/// Each layer has two factors, A of its source and G of the gradient of its result before the activation
/// (engine/ops/kfac.hpp), as running means, which begin with the values of the first batch (empirical Fisher). The
/// direction of the layer's weights and bias is G^-1 g A^-1 with damped inverses, or by eigenvectors. The directions of
/// all such layers are scaled by one number (kl_clip). Then come weight decay (L2), momentum and step: v = momentum v +
/// direction + weight_decay w, w -= lr v. All other parameters, among them those of embeddings, recurrent cells,
/// convolutions in groups, normalizations, and weights that several layers have, move by momentum SGD with the same
/// rate; they have no part in kl_clip.
///
/// Factors of more than block_size rows are block-diagonal (section 4.2 of Martens and Grosse has blocks of layers;
/// these are within a layer): the blocks alone are summed, exchanged, kept, inverted and multiplied. Factored damping
/// takes the traces of whole factors.
///
/// A row of a dense layer counts as a sample of its own, also if a sample has several rows; its gradient is that of its
/// part of the sample's loss, which is 1 / T of the row's own loss if the loss is a mean over T rows. Factors are sums
/// over all ranks, exchanged as upper triangles in one message, in f32 in every precision. With micro-batches they are
/// those of the last micro-batch; with lag those of this step, while the gradients are those of the step before. Each
/// inverse is computed by one of the ranks, in f64, and reaches the others in one sum. Steps with factors update them
/// before the direction. With inv_update_delay = d the inverses are used d steps later, as roots of Shampoo are. As
/// long as a layer has no inverses, after a change of the network, or if the first step's gradients were not finite, it
/// moves by momentum SGD.
struct Kfac : Optimizer {
  static constexpr const char* name = "KFAC";  ///< see Optimizers
  static constexpr const char* summary =
      "Natural gradients by Kronecker factors of dense layers and convolutions.";  ///< the same

  float momentum = 0.9f,                  ///< of the steps
      damping = 0.003f,                   ///< lambda, 0 or more; 0.001 to 0.03 is usual
      factor_decay = 0.95f,               ///< decay rate of the running means of the factors
      kl_clip = 0.001f;                   ///< bound on the change of the predictions in a step; 0: none
  std::int32_t factor_update_steps = 10,  ///< steps from one update of the factors to the next
      inv_update_steps = 10,              ///< steps from one computation of the inverses to the next
      inv_update_delay = 0;               ///< steps in which the inverses are computed; below inv_update_steps
  /// Positions of a sample of which A is made, for convolutions with more: one of each of so many parts of the source,
  /// at random. 0: all. G is always made of all.
  std::int32_t factor_positions = 1024;
  /// Factors with more rows are cut into diagonal blocks of about the same size, of so many rows or fewer, in the order
  /// of the rows; what lies outside the blocks counts as zero. 0: none, and factors of more than 8193 rows are refused.
  std::int32_t block_size = 128;
  std::int32_t plain_above = 0;  ///< layers with a factor of more rows move by momentum SGD; 0: none
  /// Directions by eigenvectors, which fit small damping better and cost some ten times as much as inverses with
  /// factored damping.
  bool eigen = false;

  std::vector<std::string> state_names() const override;
  /// Throws InputError for settings out of their ranges, and for factors with too many rows.
  std::optional<Shape> own_state_shape(std::size_t state, const Shape& parameter,
                                       std::int64_t product_inputs) const override;
  bool needs_whole_parameters() const override { return true; }
  bool can_average_states() const override { return !eigen; }
  bool observes(const Shape& weights, std::int64_t product_inputs) const override;
  std::uint64_t observation_period() const override;
  std::vector<int> append_observation(BackwardBuilder& builder, const LayerProduct& product) const override;
  /// Throws InputError for settings out of their ranges, and where no backend computes inverses.
  void append_updates(UpdateBuilder& builder) const override;
  std::string to_string() const override;

 protected:
  std::vector<OptimizerSetting> own_settings() override;

 private:
  struct Work;
  void check_settings() const;
  ops::DiagonalBlocks blocks_of(std::int64_t rows) const { return ops::DiagonalBlocks::of(rows, block_size); }
  ops::PatchesDesc patches_of(const LayerProduct& product, const TensorDesc& src, std::int64_t samples) const;
  std::vector<Work> works(UpdateBuilder& b) const;
  void append_factors(UpdateBuilder& b, const std::vector<Work>& all) const;
  void append_inverses(UpdateBuilder& b, const std::vector<Work>& all) const;
  void append_directions(UpdateBuilder& b, std::vector<Work>& all, BufferId global_norm) const;
  void append_step(UpdateBuilder& b, const UpdatedParameter& p, BufferId direction, BufferId global_norm) const;
};

}  // namespace keelson
