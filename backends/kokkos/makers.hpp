#pragma once

#include "engine/ops/fwd.hpp"

/// One maker per op; each is defined in the file of its op and returns the primitive or the reason why there is none.
namespace keelson {
class Device;
}

namespace keelson::kokkos {

ops::Expected<ops::Conv> make_conv(const ops::ConvDesc& d);
ops::Expected<ops::Dense> make_dense(const ops::DenseDesc& d);
ops::Expected<ops::Pool> make_pool(const ops::PoolDesc& d);
ops::Expected<ops::ConvMaxPoolBackward> make_conv_max_pool(const ops::ConvMaxPoolDesc& d);
ops::Expected<ops::ConvMaxPoolForward> make_conv_max_pool_forward(const ops::ConvMaxPoolForwardDesc& d, Device& device);
ops::Expected<ops::Eltwise> make_eltwise(const ops::EltwiseDesc& d);
ops::Expected<ops::BatchNormSums> make_batch_norm_sums(const ops::BatchNormSumsDesc& d);
ops::Expected<ops::BatchNormStatistics> make_batch_norm_statistics(const ops::BatchNormStatisticsDesc& d);
ops::Expected<ops::RunningStatistics> make_running_statistics(const ops::RunningStatisticsDesc& d);
ops::Expected<ops::BatchNorm> make_batch_norm(const ops::BatchNormDesc& d);
ops::Expected<ops::BatchNormBackward> make_batch_norm_backward(const ops::BatchNormBackwardDesc& d);
ops::Expected<ops::Dropout> make_dropout(const ops::DropoutDesc& d);
ops::Expected<ops::Reorder> make_reorder(const ops::ReorderDesc& d);
ops::Expected<ops::Sum> make_sum(const ops::SumDesc& d);
ops::Expected<ops::Concat> make_concat(const ops::ConcatDesc& d);
ops::Expected<ops::Softmax> make_softmax(const ops::SoftmaxDesc& d);
ops::Expected<ops::Embedding> make_embedding(const ops::EmbeddingDesc& d);
ops::Expected<ops::AddRows> make_add_rows(const ops::AddRowsDesc& d);
ops::Expected<ops::MatMul> make_matmul(const ops::MatMulDesc& d);
ops::Expected<ops::RecurrentCell> make_recurrent_cell(const ops::RecurrentCellDesc& d);
ops::Expected<ops::Loss> make_loss(const ops::LossDesc& d, Device& device);
ops::Expected<ops::SumSquares> make_sum_squares(const ops::SumSquaresDesc& d, Device& device);
ops::Expected<ops::CheckGradients> make_check_gradients(const ops::CheckGradientsDesc& d);
ops::Expected<ops::LambDirection> make_lamb_direction(const ops::LambDirectionDesc& d);
ops::Expected<ops::LambStep> make_lamb_step(const ops::LambStepDesc& d);
ops::Expected<ops::Update> make_update(const ops::UpdateDesc& d);

}  // namespace keelson::kokkos
