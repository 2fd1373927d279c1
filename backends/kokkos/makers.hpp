#pragma once

#include "engine/ops/fwd.hpp"

/// One maker per op of ops::OpList, but for a convolution with pooling, which has candidates alone (candidates.hpp).
/// Each is defined in the file of its op and returns the primitive or the reason why there is none.
namespace keelson {
class Device;
}

namespace keelson::kokkos {

ops::Expected<ops::AddRows> make(const ops::AddRowsDesc& d);
ops::Expected<ops::BatchNorm> make(const ops::BatchNormDesc& d);
ops::Expected<ops::BatchNormBackward> make(const ops::BatchNormBackwardDesc& d);
ops::Expected<ops::BatchNormStatistics> make(const ops::BatchNormStatisticsDesc& d);
ops::Expected<ops::BatchNormSums> make(const ops::BatchNormSumsDesc& d);
ops::Expected<ops::BiasGradient> make(const ops::BiasGradientDesc& d);
ops::Expected<ops::CheckGradients> make(const ops::CheckGradientsDesc& d);
ops::Expected<ops::Concat> make(const ops::ConcatDesc& d);
ops::Expected<ops::Conv> make(const ops::ConvDesc& d);                        // direct
ops::Expected<ops::ConvMaxPoolBackward> make(const ops::ConvMaxPoolDesc& d);  // by argmax
ops::Expected<ops::DecodeVoxels> make(const ops::DecodeVoxelsDesc& d);
ops::Expected<ops::Dense> make(const ops::DenseDesc& d);
ops::Expected<ops::Dropout> make(const ops::DropoutDesc& d);
ops::Expected<ops::Eltwise> make(const ops::EltwiseDesc& d);
ops::Expected<ops::Embedding> make(const ops::EmbeddingDesc& d);
ops::Expected<ops::FoldBatchNorm> make(const ops::FoldBatchNormDesc& d);
ops::Expected<ops::LambDirection> make(const ops::LambDirectionDesc& d);
ops::Expected<ops::LambStep> make(const ops::LambStepDesc& d);
ops::Expected<ops::Loss> make(const ops::LossDesc& d, Device& device);
ops::Expected<ops::MatMul> make(const ops::MatMulDesc& d);  // by general tiles
ops::Expected<ops::PixelLoss> make(const ops::PixelLossDesc& d, Device& device);
ops::Expected<ops::Pool> make(const ops::PoolDesc& d);
ops::Expected<ops::RecurrentCell> make(const ops::RecurrentCellDesc& d);
ops::Expected<ops::Reorder> make(const ops::ReorderDesc& d);
ops::Expected<ops::Resize> make(const ops::ResizeDesc& d);
ops::Expected<ops::RmsNorm> make(const ops::RmsNormDesc& d);
ops::Expected<ops::RunningStatistics> make(const ops::RunningStatisticsDesc& d);
ops::Expected<ops::Softmax> make(const ops::SoftmaxDesc& d);
ops::Expected<ops::Sum> make(const ops::SumDesc& d);
ops::Expected<ops::SumSquares> make(const ops::SumSquaresDesc& d, Device& device);
ops::Expected<ops::TransposedConv> make(const ops::TransposedConvDesc& d);
ops::Expected<ops::Update> make(const ops::UpdateDesc& d);

}  // namespace keelson::kokkos
