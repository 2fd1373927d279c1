#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/shape.hpp"

namespace keelson {

class BackwardBuilder;
class Parameters;
class UpdateBuilder;
struct LayerProduct;

/// What each rank along the axes data and space keeps a part of, in place of the whole: ZeRO, Rajbhandari et al. 2020,
/// arXiv 1910.02054. Ranks sum gradients by reduce-scatter, update the parameters of their own part, and gather the
/// parameters. With G ranks, k moments per parameter and P parameters, a rank needs these bytes of f32:
enum class OptimizerShards : std::uint8_t {
  none,      ///< (8 + 4 k) P: whole parameters, gradients and moments
  moments,   ///< (8 + 4 k / G) P: ZeRO-1, moments in shards
  gradients  ///< (4 + (4 + 4 k) / G) P and two buckets (three, if a call writes into two): ZeRO-2, gradients and
             ///< moments in shards
};

/// "none", ...
constexpr std::string_view to_string(OptimizerShards s) {
  constexpr std::string_view names[] = {"none", "moments", "gradients"};
  return names[static_cast<int>(s)];
}

/// The opposite of to_string(). Throws InputError for another text.
OptimizerShards parse_shards(std::string_view text);

/// What a plan needs of an optimizer (engine/optim/optimizer.hpp): the state of each parameter, and the calls of a
/// step.
///
/// Sums, norms and states are f32 or f64 in every precision. The same gradients give the same bits.
struct UpdateRule {
  virtual ~UpdateRule() = default;  ///< for derived classes

  /// The names of the arrays that belong to each parameter, as PyTorch has them: "momentum_buffer", "exp_avg". Each
  /// array has the parameter's shape and layout, or the shape that own_state_shape() says, and is zero at first.
  /// Checkpoints store these arrays.
  virtual std::vector<std::string> state_names() const = 0;

  /// The shape of state number `state` of state_names() for a parameter of the shape `parameter`, if it is not that of
  /// the parameter: a plain array, for example a matrix for each dimension. `product_inputs`: as in ParameterSpec. A
  /// shape without elements: the parameter has no such state. No value: the parameter's shape and layout. Optimizers
  /// with such states need whole parameters. A network whose shapes change begins with zeros in these states, so
  /// append_updates() has to cope with zeros.
  virtual std::optional<Shape> own_state_shape(std::size_t state, const Shape& parameter,
                                               std::int64_t product_inputs) const {
    (void)state, (void)parameter, (void)product_inputs;
    return std::nullopt;
  }

  /// Whether the update of a parameter needs all of the parameter on the rank that makes it: then there are no shards
  /// of the optimizer, and ranks do not share a layer's parameters.
  virtual bool needs_whole_parameters() const { return false; }

  /// Whether the mean over ranks of each state is a state. If not, ranks cannot update apart from each other.
  virtual bool can_average_states() const { return true; }

  /// Whether a row of a parameter does not change if its gradient is zero. If so, plans keep gradients with few
  /// non-zero rows (of an embedding) as rows, and append_updates() has to support such gradients. Else all gradients
  /// are whole.
  virtual bool moves_only_rows_with_gradient() const { return false; }

  /// Whether layers read a parameter plus its first state in training, so that gradients are those at this point.
  /// Evaluation, checkpoints and exports have the parameter itself.
  virtual bool reads_ahead() const { return false; }

  /// Whether the optimizer reads what weights of this shape multiply, and the gradient of the products, in backward
  /// passes: append_observation(). `product_inputs`: as in ParameterSpec, above 0.
  virtual bool observes(const Shape& weights, std::int64_t product_inputs) const {
    (void)weights, (void)product_inputs;
    return false;
  }
  /// The steps from one observation to the next, 1 or more: those whose number is a multiple, the first one included.
  virtual std::uint64_t observation_period() const { return 1; }
  /// Appends calls to the backward pass of a layer whose weights the optimizer observes. The calls run in the steps of
  /// observation_period() alone, in each micro-batch. Returns the buffers with what has been observed, which
  /// UpdateBuilder::observations() gives to append_updates(); they have the values of the last micro-batch.
  virtual std::vector<int> append_observation(BackwardBuilder& builder, const LayerProduct& product) const {
    (void)builder, (void)product;
    return {};
  }

  /// Appends the calls of one step. The calls run when the gradients are summed over all ranks and, if the plan checks
  /// gradients, checked.
  virtual void append_updates(UpdateBuilder& builder) const = 0;
};

/// Gives all trained parameters the shapes of their states (Parameters::set_own_shapes()). Plans for training do so;
/// who reads or writes states before there is a plan calls this function. Throws as Parameters::set_own_shapes().
void set_own_shapes(Parameters& parameters, const UpdateRule& rule);

}  // namespace keelson
