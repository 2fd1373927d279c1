#include "backends/kokkos/factory.hpp"

#include "backends/kokkos/makers.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson::backends {

std::unique_ptr<ops::OpFactory> make_kokkos_factory(Device& device) {
  auto factory = std::make_unique<ops::OpFactory>("kokkos");
  factory->add<ops::ConvDesc>(kokkos::make_conv)
      .add<ops::DenseDesc>(kokkos::make_dense)
      .add<ops::PoolDesc>(kokkos::make_pool)
      .add<ops::ConvMaxPoolDesc>(kokkos::make_conv_max_pool)
      .add<ops::ConvMaxPoolForwardDesc>(
          [&device](const ops::ConvMaxPoolForwardDesc& d) { return kokkos::make_conv_max_pool_forward(d, device); })
      .add<ops::EltwiseDesc>(kokkos::make_eltwise)
      .add<ops::BatchNormSumsDesc>(kokkos::make_batch_norm_sums)
      .add<ops::BatchNormStatisticsDesc>(kokkos::make_batch_norm_statistics)
      .add<ops::RunningStatisticsDesc>(kokkos::make_running_statistics)
      .add<ops::BatchNormDesc>(kokkos::make_batch_norm)
      .add<ops::BatchNormBackwardDesc>(kokkos::make_batch_norm_backward)
      .add<ops::DropoutDesc>(kokkos::make_dropout)
      .add<ops::ReorderDesc>(kokkos::make_reorder)
      .add<ops::SumDesc>(kokkos::make_sum)
      .add<ops::ConcatDesc>(kokkos::make_concat)
      .add<ops::SoftmaxDesc>(kokkos::make_softmax)
      .add<ops::EmbeddingDesc>(kokkos::make_embedding)
      .add<ops::AddRowsDesc>(kokkos::make_add_rows)
      .add<ops::MatMulDesc>(kokkos::make_matmul)
      .add<ops::RecurrentCellDesc>(kokkos::make_recurrent_cell)
      .add<ops::LossDesc>([&device](const ops::LossDesc& d) { return kokkos::make_loss(d, device); })
      .add<ops::SumSquaresDesc>([&device](const ops::SumSquaresDesc& d) { return kokkos::make_sum_squares(d, device); })
      .add<ops::CheckGradientsDesc>(kokkos::make_check_gradients)
      .add<ops::LambDirectionDesc>(kokkos::make_lamb_direction)
      .add<ops::LambStepDesc>(kokkos::make_lamb_step)
      .add<ops::UpdateDesc>(kokkos::make_update);
  return factory;
}

}  // namespace keelson::backends
