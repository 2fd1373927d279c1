#pragma once

#include <cmath>
#include <vector>

#include "engine/ops/combine.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/eltwise.hpp"
#include "engine/ops/lamb.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/muon.hpp"
#include "engine/ops/orthogonalize.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/recurrent_cell.hpp"
#include "engine/ops/resize.hpp"
#include "engine/ops/transposed_conv.hpp"
#include "engine/ops/update.hpp"
#include "tests/oracle/array.hpp"

/// Every op once more: serial, float64, row-major, naive loops, written from the formulas in engine/ops and from
/// nothing else, so that it can judge the kernels. Pure functions of Arrays; an absent operand is an empty Array. Whole
/// networks run on it too.
namespace keelson::oracle {

// ---- convolution (conv.cpp): shapes and gradients as in engine/ops/conv.hpp

Array conv_forward(const Array& src, const Array& weights, const Array& bias, const ops::ConvParams& p);
/// diff_dst is the gradient before the activation, as for ops::Conv.
Array conv_backward_data(const Array& diff_dst, const Array& weights, const Shape& src_shape, const ops::ConvParams& p);
Array conv_backward_weights(const Array& src, const Array& diff_dst, const Shape& weights_shape,
                            const ops::ConvParams& p);
/// Sum over everything but dim 1; also dense's.
Array backward_bias(const Array& diff_dst);
Shape conv_shape(const Shape& src, const Shape& weights, const ops::ConvParams& p);
/// Multiply-adds counted one by one; taps on padding count.
std::int64_t conv_count(const Shape& src, const Shape& weights, const ops::ConvParams& p);

// ---- transposed convolution (conv.cpp): as in engine/ops/transposed_conv.hpp

Array transposed_conv_forward(const Array& src, const Array& weights, const Array& bias,
                              const ops::TransposedConvParams& p);
/// diff_dst is the gradient before the activation.
Array transposed_conv_backward_data(const Array& diff_dst, const Array& weights, const Shape& src_shape,
                                    const ops::TransposedConvParams& p);
Array transposed_conv_backward_weights(const Array& src, const Array& diff_dst, const Shape& weights_shape,
                                       const ops::TransposedConvParams& p);
Shape transposed_conv_shape(const Shape& src, const Shape& weights, const ops::TransposedConvParams& p);
/// Multiply-adds counted one by one; those that are cut off count.
std::int64_t transposed_conv_count(const Shape& src, const Shape& weights, const ops::TransposedConvParams& p);

// ---- dense (conv.cpp)

Array dense_forward(const Array& src, const Array& weights, const Array& bias, const ops::DenseParams& p);
Array dense_backward_data(const Array& diff_dst, const Array& weights);
Array dense_backward_weights(const Array& src, const Array& diff_dst);

// ---- pooling (pool.cpp)

Array pool_forward(const Array& src, const ops::PoolParams& p);
Array pool_backward(const Array& diff_dst, const Array& src, const ops::PoolParams& p);
Shape pool_shape(const Shape& src, const ops::PoolParams& p);

// ---- bilinear interpolation (resize.cpp)

Array resize_forward(const Array& src, std::int64_t rows, std::int64_t columns, ops::ResizeGrid grid);
Array resize_backward(const Array& diff_dst, const Shape& src, ops::ResizeGrid grid);

// ---- element-wise (eltwise.cpp)

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
Array eltwise_forward(const Array& src, const ops::EltwiseParams& p);
/// From src, always; at 0 the derivative of (leaky) ReLU is alpha.
Array eltwise_backward(const Array& diff_dst, const Array& src, const ops::EltwiseParams& p);

/// Forward, and backward as well when given diff_dst: both multiply by the same mask.
Array dropout(const Array& src, const ops::DropoutParams& p, const ops::StepParams& now,
              std::int64_t rows_per_sample = 1);

// ---- combining (combine.cpp)

Array sum(const std::vector<Array>& srcs);
Array concat(const std::vector<Array>& srcs, int axis);
std::vector<Array> concat_backward(const Array& diff_dst, const std::vector<Shape>& src_shapes, int axis);
Array softmax_forward(const Array& src, int axis);
Array softmax_backward(const Array& diff_dst, const Array& dst, int axis);

// ---- look-up tables and recurrence (recurrent.cpp): ids are whole doubles

Array embedding_forward(const Array& ids, const Array& weights);
/// The whole gradient of the table.
Array embedding_backward(const Array& ids, const Array& diff_dst, const Shape& weights_shape);

/// One time step of N samples.
struct CellStep {
  Array input, recurrent;  ///< (N, gates): parts of the gates
  Array bias;              ///< (H), gru only
  Array state;             ///< (N, states, H) before the step
};
struct CellResult {
  Array gates, next_state;
};
CellResult cell_forward(ops::CellKind kind, const CellStep& s);
/// `diff_state`: what goes back past the products with h.
struct CellGradients {
  Array input, recurrent, bias, state;
};
CellGradients cell_backward(ops::CellKind kind, const CellStep& s, const Array& diff_next_state);

/// A recurrent layer over a sequence: the recurrent parts are h weights^T. Rows hold step t of sample n in row
/// n * steps + t.
struct SequenceResult {
  Array dst, next_state;
};
SequenceResult sequence_forward(ops::CellKind kind, const Array& input, const Array& state, const Array& weights,
                                const Array& bias);
/// Back-propagation through time. `state`: of the state before the first step, which training does not use.
struct SequenceGradients {
  Array input, weights, bias, state;
};
SequenceGradients sequence_backward(ops::CellKind kind, const Array& diff_dst, const Array& input, const Array& state,
                                    const Array& weights, const Array& bias);

// ---- losses (loss.cpp): class numbers of a cross-entropy target are whole doubles, (N) or one per row

double loss_forward(const Array& prediction, const Array& target, const Array& weight, const ops::LossParams& p,
                    const ops::StepParams& now, std::int64_t rows_per_sample = 1);
Array loss_backward(const Array& prediction, const Array& target, const Array& weight, const ops::LossParams& p,
                    const ops::StepParams& now, std::int64_t rows_per_sample = 1, const ops::LossScale& scale = {});

// ---- optimizers (update.cpp)

double sum_squares(const Array& a);

struct OptimizerState {
  Array param, moment1, moment2;
};
/// What CheckGradients makes of `now` when the gradients' sums of squares are `sums`.
ops::LossScale check_gradients(ops::LossScale now, const ops::CheckGradientsDesc& d, const Array& sums);
/// One step of one parameter. `global_sum_squares`: of all gradients as they are, before they are unscaled; used if
/// clip_norm > 0. `lars_norms`: LARS gets norms.
OptimizerState update(OptimizerState s, Array diff, const ops::UpdateParams& p, const ops::StepParams& now,
                      double global_sum_squares = 0, bool lars_norms = true, const ops::LossScale& scale = {});

/// LambDirection: moves the moments of `s` and returns the direction.
Array lamb_direction(OptimizerState& s, const Array& diff, const ops::LambParams& p, const ops::StepParams& now,
                     double global_sum_squares = 0, const ops::LossScale& scale = {});
/// Orthogonalize; of an array of more dimensions all but the first count columns.
Array orthogonalize(const Array& src, const ops::OrthogonalizeDesc& d);
/// MuonDirection: moves moment1 of `s` and returns the direction.
Array muon_direction(OptimizerState& s, const Array& diff, const ops::MuonDirectionDesc& d,
                     double global_sum_squares = 0, const ops::LossScale& scale = {});
/// MuonStep.
void muon_step(Array& param, const Array& direction, const ops::MuonStepDesc& d, const ops::StepParams& now,
               const ops::LossScale& scale = {});
/// LambStep; `scaled`: with the trust ratio.
void lamb_step(Array& param, const Array& direction, const ops::LambStepDesc& d, const ops::StepParams& now,
               bool scaled, const ops::LossScale& scale = {});

}  // namespace keelson::oracle
