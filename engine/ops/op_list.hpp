#pragma once

#include "engine/ops/batch_norm.hpp"
#include "engine/ops/bias_gradient.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/decode_voxels.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/eltwise.hpp"
#include "engine/ops/embedding.hpp"
#include "engine/ops/lamb.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/pixel_loss.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/recurrent_cell.hpp"
#include "engine/ops/resize.hpp"
#include "engine/ops/rms_norm.hpp"
#include "engine/ops/transposed_conv.hpp"
#include "engine/ops/update.hpp"

namespace keelson::ops {

template <class... T>
struct TypeList {};

/// The description of every op. The tests' fake device and the generic test of operands go through this list.
// clang-format off: one line each
using OpList = TypeList<
    AddRowsDesc,
    BatchNormDesc,
    BatchNormBackwardDesc,
    BatchNormStatisticsDesc,
    BatchNormSumsDesc,
    BiasGradientDesc,
    CheckGradientsDesc,
    ConcatDesc,
    ConvDesc,
    ConvMaxPoolDesc,
    ConvMaxPoolForwardDesc,
    DecodeVoxelsDesc,
    DenseDesc,
    DropoutDesc,
    EltwiseDesc,
    EmbeddingDesc,
    FoldBatchNormDesc,
    LambDirectionDesc,
    LambStepDesc,
    LossDesc,
    MatMulDesc,
    PixelLossDesc,
    PoolDesc,
    RecurrentCellDesc,
    ReorderDesc,
    ResizeDesc,
    RmsNormDesc,
    RunningStatisticsDesc,
    SoftmaxDesc,
    SumDesc,
    SumSquaresDesc,
    TransposedConvDesc,
    UpdateDesc>;
// clang-format on

/// Calls `visit.template operator()<Desc>()` for each type.
template <class... D, class Visit>
void for_each_type(TypeList<D...>, Visit&& visit) {
  (visit.template operator()<D>(), ...);
}

}  // namespace keelson::ops
