#pragma once

#include "engine/base/type_list.hpp"
#include "engine/ops/attention.hpp"
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
#include "engine/ops/group_norm.hpp"
#include "engine/ops/kfac.hpp"
#include "engine/ops/lamb.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/muon.hpp"
#include "engine/ops/orthogonalize.hpp"
#include "engine/ops/pixel_loss.hpp"
#include "engine/ops/pool.hpp"
#include "engine/ops/recurrent_cell.hpp"
#include "engine/ops/resize.hpp"
#include "engine/ops/rms_norm.hpp"
#include "engine/ops/sampled_softmax.hpp"
#include "engine/ops/shampoo.hpp"
#include "engine/ops/transposed_conv.hpp"
#include "engine/ops/update.hpp"

/// The one list of all ops: X(description) for each. OpList, the makers of the Kokkos backend, the tests' fake device
/// and the generic test of operands are made from this list.
// clang-format off: one line each
#define KEELSON_OPS(X)          \
  X(AddRowsDesc)                \
  X(AttentionDesc)              \
  X(BatchNormDesc)              \
  X(BatchNormBackwardDesc)      \
  X(BatchNormStatisticsDesc)    \
  X(BatchNormSumsDesc)          \
  X(BiasGradientDesc)           \
  X(CheckGradientsDesc)         \
  X(ClassSumsDesc)              \
  X(ConcatDesc)                 \
  X(ConvDesc)                   \
  X(ConvMaxPoolDesc)            \
  X(ConvMaxPoolForwardDesc)     \
  X(DecayedSumDesc)             \
  X(DecodeVoxelsDesc)           \
  X(DenseDesc)                  \
  X(DropoutDesc)                \
  X(EigenQuotientDesc)          \
  X(EltwiseDesc)                \
  X(EmbeddingDesc)              \
  X(FactorInversesDesc)         \
  X(FoldBatchNormDesc)          \
  X(GraftDirectionDesc)         \
  X(GroupNormDesc)              \
  X(InnerProductDesc)           \
  X(InverseRootsDesc)           \
  X(KlClipDesc)                 \
  X(LambDirectionDesc)          \
  X(LambStepDesc)               \
  X(LossDesc)                   \
  X(MatMulDesc)                 \
  X(MuonDirectionDesc)          \
  X(MuonStepDesc)               \
  X(OrthogonalizeDesc)          \
  X(PackedTriangleDesc)         \
  X(PatchesDesc)                \
  X(PixelCountsDesc)            \
  X(PixelLossDesc)              \
  X(PoolDesc)                   \
  X(ProductDesc)                \
  X(RecurrentCellDesc)          \
  X(ReorderDesc)                \
  X(ResizeDesc)                 \
  X(RmsNormDesc)                \
  X(RunningFactorsDesc)         \
  X(RunningStatisticsDesc)      \
  X(SampleClassesDesc)          \
  X(SampledLogitsDesc)          \
  X(ShampooStepDesc)            \
  X(SoftmaxDesc)                \
  X(SumDesc)                    \
  X(SumSquaresDesc)             \
  X(TransposedConvDesc)         \
  X(UpdateDesc)
// clang-format on

namespace keelson::ops {

namespace detail {
template <class First, class... Others>
using AllButFirst = TypeList<Others...>;
}

#define KEELSON_COMMA(desc) , desc
/// The descriptions of all ops.
using OpList = detail::AllButFirst<void KEELSON_OPS(KEELSON_COMMA)>;
#undef KEELSON_COMMA

}  // namespace keelson::ops
